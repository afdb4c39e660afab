"""A headless Chromium that draws without a GPU, stays off the network and never holds us up, and a port for its page:
for the pictures and the tests of the page."""

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
# Every page draws without rest on the processor that the graph needs too.
SIZE = {"width": 760, "height": 560}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Browser:
    """Started when a page is wanted. Some of playwright's calls (`close`, `is_visible`, `all`) have no limit, and
    Chromium now and then never answers them: then it is killed, which playwright hears, and starts anew."""

    def __init__(self, playwright, close_s: float = 20.0, flags: tuple[str, ...] = ()) -> None:
        self._playwright, self._browser, self._close_s = playwright, None, close_s
        self._flags = [*FLAGS, *flags]

    def new_page(self, **options):
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(
                executable_path=CHROMIUM, headless=True, args=self._flags, env={**environ, MARK: str(getpid())}
            )
        page = self._browser.new_page(**{"viewport": SIZE} | options)
        page.set_default_timeout(90_000)
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
        """The tab is gone afterwards, one way or the other."""
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
    """All of our Chromium, by the mark in their environment: its crash handlers are nobody's children, and
    playwright's `close` waits until they too have let go of its pipes."""
    mark, found = f"{MARK}={getpid()}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
