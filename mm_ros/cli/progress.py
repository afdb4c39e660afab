"""A progress bar on stderr for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import time


class Progress:
    """Shows the progress of work by calls such as `Progress()(what, done, of)`. On a terminal, `Progress` draws a bar;
    elsewhere it prints a line every ten seconds and whenever `what`, the name of the present step, changes."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.start = self.drawn = time.monotonic()
        self.what = ""
        self.terminal = sys.stderr.isatty()

    def __call__(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if what != self.what:
            self.end()
            self.what, self.start = what, now
        if self.quiet or now - self.start < 2 or (now - self.drawn < (0.1 if self.terminal else 10) and done < of):
            return
        self.drawn = now
        share = done / of if of else 1.0
        left = (now - self.start) / share * (1 - share) if share > 0 else 0.0
        bar = "█" * round(24 * share) + "·" * (24 - round(24 * share))
        text = f"{what:<12} {bar} {done}/{of}  {left:3.0f} s left"
        print(f"\r{text}" if self.terminal else text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.terminal and self.what and not self.quiet and self.drawn > self.start:
            print(file=sys.stderr)
