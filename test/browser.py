"""A headless Chromium that renders without a GPU and never holds the tests up, and a port for its page."""

import shutil
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from os import getpid, kill
from pathlib import Path

from chromium import FLAGS

CHROMIUM = shutil.which("chromium")
# Every page draws without rest on the processor that the graph needs too.
SIZE = {"width": 760, "height": 560}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Browser:
    """Started when a page is wanted. Some of playwright's calls (`close`, `is_visible`, `all`) have no limit, and
    Chromium now and then never answers them: then it is killed, which playwright hears, and starts anew."""

    def __init__(self, playwright) -> None:
        self._playwright, self._browser = playwright, None

    def new_page(self, **options):
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
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
        with self.within(20.0), suppress(Exception):
            page.close()

    def close(self) -> None:
        with self.within(20.0), suppress(Exception):
            if self._browser is not None:
                self._browser.close()


def _kill_chromium() -> None:
    for pid in descendants(getpid()):
        with suppress(OSError):
            if (Path(f"/proc/{pid}/exe").readlink()).name.startswith("chrom"):
                kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found
