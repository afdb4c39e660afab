"""Chromium of the tests: one that does not answer is replaced and does not block them."""

import os
import signal
from pathlib import Path

import pytest

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")

from chromium import CHROMIUM, Browser
from chromium import processes as browser_processes
from processes import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt install chromium")


@pytest.mark.parametrize(("stopped", "close"), [("chrom", "close_page"), ("chrome_crashpad", "close")])
def test_one_that_stands_still_is_replaced(stopped: str, close: str):
    with sync.sync_playwright() as p:
        browser = Browser(p, close_s=3.0)
        page = browser.new_page()
        held = [n for n in browser_processes() if Path(f"/proc/{n}/exe").readlink().name.startswith(stopped)]
        assert held
        for number in held:
            os.kill(number, signal.SIGSTOP)
        getattr(browser, close)(*([page] if close == "close_page" else []))
        wait_until(lambda: not set(held) & set(browser_processes()), PATIENCE_S, "the end of the killed processes")
        again = browser.new_page()
        again.goto("data:text/html,<p>here</p>")
        assert again.inner_text("p") == "here"
        browser.close()
