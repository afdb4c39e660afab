"""Start a headless Chromium without GPU and network, and end it when it hangs; for pictures and tests of the pages."""

import random
import shutil
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from os import environ, getpid, kill
from pathlib import Path

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]  # fmt: skip
MARK = "MM_ROS_BROWSER_OF"
# A page is small, because it draws continuously on the CPU, which the ROS graph needs, too.
SIZE = {"width": 760, "height": 560}
# JavaScript that makes a page wait 150 ms before each frame, so that other processes get the CPU.
FEW_FRAMES = """(() => { const draw = window.requestAnimationFrame.bind(window), due = new Map(); let last = 0;
  window.requestAnimationFrame = (frame) => { const id = ++last; due.set(id, frame);
    setTimeout(() => draw((t) => { const f = due.get(id); due.delete(id); if (f) f(t); }), 150); return id; };
  window.cancelAnimationFrame = (id) => { due.delete(id); }; })();
"""


def free_port() -> int:
    """Return a free port whose successor is free too, because some servers open two. Linux gives ports from 32768 on to
    any program that connects, so one of these could be taken before the server opens it.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", port))
            two.bind(("127.0.0.1", port + 1))
            return port


class Browser:
    """Chromium, started when its first page is opened. Some calls of playwright (`close`, `is_visible`, `all`) have no
    time limit, and Chromium sometimes does not answer them. A browser that does not answer is killed; `new_page` then
    starts another one.
    """

    def __init__(self, playwright, close_s: float = 20.0, flags: tuple[str, ...] = ()) -> None:
        self._playwright, self._browser, self._close_s = playwright, None, close_s
        self._flags = [*FLAGS, *flags]

    def new_page(self, **options):
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(
                executable_path=CHROMIUM, headless=True, args=self._flags, env={**environ, MARK: str(getpid())}
            )
        page = self._browser.new_page(**{"viewport": SIZE} | options)
        page.set_default_timeout(180_000)
        return page

    @contextmanager
    def within(self, seconds: float):
        watch = threading.Timer(seconds, _kill_chromium)
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def close_page(self, page) -> None:
        """Close the tab of the page `page`, or kill the browser if closing takes too long."""
        with self.within(self._close_s), suppress(Exception):
            page.close()

    def close(self) -> None:
        with self.within(self._close_s), suppress(Exception):
            if self._browser is not None:
                self._browser.close()


def _kill_chromium() -> None:
    for pid in processes():
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def processes() -> list[int]:
    """Return the ids of all Chromium processes that this process has started, found by a mark in their environment.
    Among them are crash handlers, which are no children of this process but make playwright's `close` wait.
    """
    mark, found = f"{MARK}={getpid()}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
