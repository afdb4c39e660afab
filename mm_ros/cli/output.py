"""Output functions for all verbs of `mm_ros`: tables as text, and the JSON file of the option `--json FILE`."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from mm_ros.base.files import write_whole
from mm_ros.base.text import printable
from mm_ros.cli.arguments import output_file

STDOUT = Path("-")
_stdout_for_json: TextIO | None = None


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", type=output_file,
        help="also write the result as JSON to FILE; '-' writes only the JSON to stdout",
    )  # fmt: skip


@contextmanager
def stdout_kept_for(json_file: Path | None) -> Iterator[None]:
    """If the option is `--json -`, send all other output to stderr, so that stdout contains only JSON."""
    global _stdout_for_json
    if json_file != STDOUT:
        yield
        return
    _stdout_for_json = sys.stdout
    with redirect_stdout(sys.stderr):
        yield


def write_json(path: Path | None, value: Any) -> None:
    """Write `value` as JSON unless `path` is None; NaN and infinity become null."""
    if path is None:
        return
    text = json.dumps(finite(value), indent=2, default=_plain, allow_nan=False) + "\n"
    if path == STDOUT:
        print(text, end="", file=_stdout_for_json or sys.stdout, flush=True)
    else:
        write_whole(path, text.encode())


def finite(value: Any) -> Any:
    """Return a copy of `value` in which None replaces NaN and infinity, because JSON has neither NaN nor infinity."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form: {value!r}")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a header and rows as a table of text; columns of numbers are right-aligned."""
    header = [printable(h) for h in header]
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    right = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))]
    lines = [list(header), ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value).replace("\n", " "))
