"""Pages of other origins in a real Chromium: their requests are refused, and the user's page keeps working."""

import http.server
import threading
import time
from contextlib import contextmanager

import pytest

viser = pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")

from chromium import CHROMIUM, Browser, free_port
from processes import PATIENCE_S

from mm_ros.show.page.panels import Panel
from mm_ros.show.page.server import access_of, serve, url_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt install chromium"),
]

REBOUND = "rebound.example"
# Attack of another page: open the WebSocket, with or without the token, and report the result.
ATTACK = """([url, protocol]) => new Promise(done => {
    const s = new WebSocket(url, [protocol]);
    s.onopen = () => done("open"); s.onerror = () => done("refused"); setTimeout(() => done("silent"), 20000);
})"""


@contextmanager
def other_origin():
    """Foreign web server on another port."""

    class Blank(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>another page</p>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        try:
            yield made.server_port
        finally:
            made.shutdown()
            thread.join(10)


def test_other_pages_are_refused_and_the_users_page_goes_on():
    server = serve("127.0.0.1", free_port())
    pressed, port, refused = [], server.get_port(), access_of(server).refused
    Panel(server, lambda *action: pressed.append(action))
    flags = (f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1,MAP other.example 127.0.0.1",)
    try:
        with sync.sync_playwright() as p, other_origin() as other:
            browser = Browser(p, flags=flags)
            with browser.within(3 * PATIENCE_S):
                page = browser.new_page()
                page.goto(url_of(server))
                page.wait_for_selector("canvas:visible")
                attack_from_elsewhere(browser, url_of(server), other)
                assert refused["origin"] == 4
                rebound(browser, url_of(server).replace("127.0.0.1", REBOUND))
                assert refused["host"] >= 2
                foreign_token(browser, port)
                assert refused["token"] >= 2
                press(page, "reset", pressed)
                page.reload()
                page.wait_for_selector("canvas:visible")
                press(page, "calibrate", pressed)
                browser.close_page(page)
            browser.close()
    finally:
        server.stop()


def attack_from_elsewhere(browser, url, other):
    """From another port and from another name, even with the token."""
    socket = url.replace("http:", "ws:")
    for origin in (f"http://127.0.0.1:{other}", f"http://other.example:{other}"):
        page = browser.new_page()
        page.goto(origin)
        for target in (socket, socket.rpartition("/")[0]):
            assert page.evaluate(ATTACK, [target, f"viser-v{viser.__version__}"]) == "refused"
        browser.close_page(page)


def rebound(browser, url):
    """DNS rebinding: a foreign name leads to this machine, so page and WebSocket have one origin."""
    page = browser.new_page()
    answer = page.goto(url)
    assert answer.status == 403
    assert page.evaluate(ATTACK, [url.replace("http:", "ws:"), f"viser-v{viser.__version__}"]) == "refused"
    browser.close_page(page)


def foreign_token(browser, port):
    page = browser.new_page()
    for path in ("", "x" * 22 + "/"):
        assert page.goto(f"http://127.0.0.1:{port}/{path}").status == 403
        wanted = [f"ws://127.0.0.1:{port}/{path}", f"viser-v{viser.__version__}"]
        assert page.evaluate(ATTACK, wanted) == "refused"
    browser.close_page(page)


def press(page, name, pressed):
    page.get_by_role("button", name=name).click()  # once it does not move: the page has just been loaded
    until = time.monotonic() + PATIENCE_S
    while (name,) not in pressed:
        assert time.monotonic() < until, f"'{name}' did not arrive"
        page.wait_for_timeout(100)


