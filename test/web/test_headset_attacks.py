"""Attacks on the headset page's server, by plain sockets on both of its ports, while a user is in VR: each one is
refused, and the user's connection goes on. Attacks that need a browser are in test_headset_page."""

import asyncio
import json
import shutil
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from chromium import free_port
from processes import PATIENCE_S

sync = pytest.importorskip("websockets.sync.client", reason="websockets is not installed (extra [webxr])")
from headset_clients import frame, next_pose, pose_message, until_true
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from mm_ros.web.headset.server import LIMITS, MOST_CODES, PAIRING, HeadsetServer

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MM_ROS_HEADSET", str(tmp_path_factory.mktemp("headset")))
        patch.setenv("MM_ROS_HEADSET_CODE", "123456")
        made = HeadsetServer(free_port(), wifi=True)
        made.start()
        yield made
        made.close()


class TlsPage:
    """A WebSocket over TLS with the methods of websockets' threaded client.

    That client reads in one thread and writes in another. Before Python 3.13 a TLS socket allows only one thread at a
    time: about one connection in thirty then ended during its handshake.
    """

    def __init__(self, url, **options):
        from websockets.asyncio.client import connect

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def opened():
            return await connect(url, proxy=None, **options)

        try:
            self._socket = self._wait(opened())
        except BaseException:
            self._end()
            raise

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, message):
        self._wait(self._socket.send(message))

    def recv(self, timeout=None):
        return self._wait(asyncio.wait_for(self._socket.recv(), timeout))

    @property
    def close_code(self):
        return self._socket.close_code

    def close(self):
        if not self._loop.is_closed():
            self._wait(self._socket.close())
            self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Door:
    """One of the server's two ports."""

    def __init__(self, server, secure):
        self.server, self.secure, self.port = server, secure, server.port + secure
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"http{'s' * secure}://{self.host}"
        self.tls = ssl.create_default_context(cadata=server.authority.decode()) if secure else None

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        return self.tls.wrap_socket(plain, server_hostname="127.0.0.1") if self.secure else plain

    def ask(self, raw):
        """Send bytes; return the answer, b"" if the connection is closed without one, also while the bytes are sent."""
        closed = ConnectionError, ssl.SSLEOFError
        with self.connect() as s:
            with suppress(*closed):
                s.sendall(raw)
            try:
                return s.recv(4096)
            except closed:
                return b""

    def get(self, path, **headers):
        given = {"Host": self.host, **{k.replace("_", "-"): v for k, v in headers.items()}}
        lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items() if v is not None)]
        return self.ask("\r\n".join([*lines, "", ""]).encode())

    def upgrade(self, path, **headers):
        given = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": self.origin}
        given |= {"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec_WebSocket_Version": "13"}
        return self.get(path, **{**given, **headers})

    def page(self, path=None, **options):
        url = f"ws{'s' * self.secure}://{self.host}{path or f'/{self.server.token}/socket'}"
        options = {"origin": self.origin, "compression": None, "ssl": self.tls, "open_timeout": 60, **options}
        return TlsPage(url, **options) if self.secure else sync.connect(url, **options)


@pytest.fixture(params=[False, True], ids=["http", "https"])
def door(request, server):
    return Door(server, request.param)


@contextmanager
def user_in_vr(server):
    """A user in VR; yields a check that the same session still sends frames and gets its poses."""
    with Door(server, False).page() as page:
        page.send('{"do": "session", "number": 99, "mode": "immersive-vr"}')
        tracker = until_true(lambda: server.tracker, "the user is in VR")
        number = 0

        def goes_on():
            nonlocal number
            number += 1
            page.send(frame(sequence=number))
            until_true(lambda: tracker.frame and tracker.frame.sequence == number, "the frame has arrived")
            server.show(pose_message(), number)
            assert next_pose(page) == number
            assert server.tracker is tracker and tracker.missed == 0

        goes_on()
        yield goes_on


REQUESTS = {
    "a wrong token": lambda d, t: d.get(f"/{'x' * len(t)}/"),
    "no token": lambda d, t: d.get("/page.js"),
    "a token with more behind it": lambda d, t: d.get(f"/{t}x/"),
    "another host": lambda d, t: d.get(f"/{t}/", Host="rebound.example"),
    "no host": lambda d, t: d.get(f"/{t}/", Host=None),
    "a path upwards": lambda d, t: d.get(f"/{t}/../../etc/passwd"),
    "a path upwards in other letters": lambda d, t: d.get(f"/{t}/%2e%2e/%2e%2e/etc/passwd"),
    "a file of the program": lambda d, t: d.get(f"/{t}/server.py"),
    "the key": lambda d, t: d.get(f"/{t}/leaf.key"),
    "an unknown skin": lambda d, t: d.get(f"/{t}/skin/12"),
    "a skin of 5000 digits": lambda d, t: d.get(f"/{t}/skin/{'9' * 5000}"),
    "a skin in other digits": lambda d, t: d.get(f"/{t}/skin/%C2%B2"),
    "a long line": lambda d, t: d.ask(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"),
    "many headers": lambda d, t: d.get(f"/{t}/", **{f"X{k}": "y" for k in range(500)}),
    "POST": lambda d, t: d.ask(f"POST /{t}/ HTTP/1.1\r\nHost: {d.host}\r\n\r\n".encode()),
    "OPTIONS": lambda d, t: d.ask(f"OPTIONS * HTTP/1.1\r\nHost: {d.host}\r\n\r\n".encode()),
    "garbage": lambda d, t: d.ask(bytes(range(256)) * 4 + b"\r\n\r\n"),
    "a socket without origin": lambda d, t: d.upgrade(f"/{t}/socket", Origin=None),
    "a socket of another origin": lambda d, t: d.upgrade(f"/{t}/socket", Origin="http://elsewhere.example"),
    "a socket of the origin null": lambda d, t: d.upgrade(f"/{t}/socket", Origin="null"),
    "a socket of another port": lambda d, t: d.upgrade(f"/{t}/socket", Origin="http://127.0.0.1:1"),
    "a socket of a rebound name": lambda d, t: d.upgrade(f"/{t}/socket", Host="a.example", Origin="http://a.example"),
    "a socket with a wrong token": lambda d, t: d.upgrade(f"/{'x' * len(t)}/socket"),
    "a socket without token": lambda d, t: d.upgrade("/socket"),
    "a socket at another path": lambda d, t: d.upgrade(f"/{t}/other"),
    "the code's socket of another origin": lambda d, t: d.upgrade("/pair", Origin="http://elsewhere.example"),
    "the code's socket without origin": lambda d, t: d.upgrade("/pair", Origin=None),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_are_refused_and_the_user_goes_on(server, door, name):
    with user_in_vr(server) as goes_on:
        answer = REQUESTS[name](door, server.token)
        assert answer == b"" or answer.split()[1][:1] == b"4", answer[:80]
        assert server.token.encode() not in answer and b"PRIVATE KEY" not in answer
        goes_on()


def test_bytes_of_the_wrong_kind_at_each_port_are_refused(server):
    plain = socket.create_connection(("127.0.0.1", server.port + 1), timeout=PATIENCE_S)
    with user_in_vr(server) as goes_on, plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP/" not in plain.recv(4096)
        http = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        with http, pytest.raises(OSError):  # TLS at the port without it
            Door(server, True).tls.wrap_socket(http, server_hostname="127.0.0.1")
        goes_on()


def test_a_page_that_sends_without_end_is_closed(server, door):
    with user_in_vr(server) as goes_on, door.page() as page:
        with suppress(ConnectionClosed):
            while True:
                page.send(b"\x03\0\0\0")
        assert page.close_code in (1006, 1008)
        goes_on()


def test_a_page_that_reads_nothing_gets_no_queue(server, door):
    raw = door.connect()
    with user_in_vr(server) as goes_on, raw:
        head = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": door.origin, "Host": door.host}
        head |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
        lines = [f"GET /{server.token}/socket HTTP/1.1", *(f"{k}: {v}" for k, v in head.items()), "", ""]
        raw.sendall("\r\n".join(lines).encode())
        silent = until_true(
            lambda: next((p for p in tuple(server.pages) if p is not server.tracker), None), "the page is connected"
        )
        for number in range(2000):
            server.show(pose_message(), number)
        goes_on()
        assert silent.socket.transport.get_write_buffer_size() < 20_000


def test_connections_that_say_nothing_are_closed(server, door):
    with user_in_vr(server) as goes_on:
        silent = [door.connect() for _ in range(20)]
        # No TLS handshake
        half = [socket.create_connection(("127.0.0.1", door.port), timeout=PATIENCE_S) for _ in range(20)]
        half[0].sendall(b"GET /")
        goes_on()
        for s in (*silent, *half):
            with s:
                assert s.recv(1) == b""
        goes_on()


def test_more_pages_than_allowed_are_refused(server, door):
    with user_in_vr(server) as goes_on:
        pages = []
        try:
            for number in range(2, LIMITS.clients + 1):
                pages.append(door.page())
                until_true(lambda n=number: len(server.pages) == n, "the page has its place")
            with pytest.raises((InvalidStatus, InvalidMessage)):  # the second: closed before the answer was read
                door.page()
            assert len(server.pages) == LIMITS.clients
            goes_on()
        finally:
            for page in pages:
                page.close()
        until_true(lambda: len(server.pages) == 1, "the pages are gone")


def test_codes_cannot_be_tried_without_end(server, monkeypatch):
    monkeypatch.setattr(server.code, "_tries", 0)
    door, why = Door(server, True), []
    with user_in_vr(server) as goes_on:
        with door.page("/pair") as pairing, suppress(ConnectionClosed):
            for k in range(1000):
                pairing.send(f"{k:06d}")
                why.append(json.loads(pairing.recv(timeout=PATIENCE_S)))
        assert len(why) == MOST_CODES and all("token" not in answer for answer in why)
        assert "wait a minute" in why[-1]["why"]
        waiting = [door.page("/pair") for _ in range(PAIRING)]
        until_true(lambda: server._pairing == PAIRING, "all places are taken")
        with pytest.raises((InvalidStatus, InvalidMessage)):
            door.page("/pair")
        for page in waiting:
            page.close()
        goes_on()
    monkeypatch.setattr(server.code, "_recent", [])

    def paired():
        try:
            with door.page("/pair") as pairing:
                pairing.send("123456")
                return json.loads(pairing.recv(timeout=PATIENCE_S))["token"] == server.token
        except (InvalidStatus, InvalidMessage):  # the closed ones still count for a moment
            return False

    until_true(paired, "the right code is accepted afterwards")


def test_changed_frames_are_counted_and_the_user_goes_on(server, door):
    """500 frames with changed bytes from a second page with the token: each is read as a good frame or refused."""
    rng, good = np.random.default_rng(5), np.frombuffer(frame(), np.uint8)
    before = server.counts["malformed"]
    with user_in_vr(server) as goes_on:
        sent = 0
        while sent < 500:
            with door.page() as page:
                page.send('{"do": "about", "device": "attack"}')
                for _ in range(60):
                    raw = good.copy()
                    raw[rng.integers(0, len(raw), rng.integers(1, 6))] = rng.integers(0, 256)
                    page.send(raw[: len(raw) - int(rng.integers(0, 3))].tobytes())
                    sent += 1
                goes_on()
        until_true(lambda: server.counts["malformed"] > before, "malformed frames are counted")
        goes_on()
