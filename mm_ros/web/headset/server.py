"""Server of the headset page: serves the page and its WebSocket on one port, in its own thread.

A page gets one pose for each drawn frame that it has reported, and at most two poses are on the way to the page.
A slow page does not delay faster pages, because poses do not queue up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from statistics import median
from typing import Any

from mm_ros import __version__
from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.web.access import (
    HEADERS,
    INSPECTOR_VARIABLE,
    Access,
    Bucket,
    Limits,
    PairingCode,
    address,
    other_page,
    session_token,
)
from mm_ros.web.headset import certificates, wire
from mm_ros.web.headset.clock import PageClock

STATIC = Path(__file__).with_name("static")
TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}  # fmt: skip
PAGE_FILES = ("page.js", "page.css", "licenses.txt")
PAIRING_FILES = ("pair.js", "page.css")
# Paths of the headset page that the server offers over Wi-Fi to requests without the token.
PUBLIC = ("/", "/pair", "/ca.crt", *(f"/{name}" for name in PAIRING_FILES))
LIMITS = Limits(message_bytes=wire.LONGEST_BYTES, messages_per_s=500.0, burst=1500.0, clients=16)
MOST_BAD = 100  # A headset page is disconnected after this number of malformed messages.
# Maximum number of devices that ask for the pairing code at the same time, and of codes that one connection may send.
PAIRING, MOST_CODES = 8, 10
UNDER_WAY = 2
FIRST_PINGS, FIRST_PING_S, PING_S = 10, 0.03, 0.5
TAKEN_OVER = 4001
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# With cross-origin isolation, the page's clock has a resolution of 5 µs instead of 0.1 ms.
ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


class Page:
    """One connected page."""

    def __init__(self, socket_: Any) -> None:
        self.socket = socket_
        self.clock = PageClock()
        self.bucket = Bucket(LIMITS)
        self.credit = 0
        self.sent: wire.PoseMessage | None = None
        self.bad = 0
        self.session = 0  # number of the page's WebXR session; 0 if the page is not in VR
        self.mode = ""
        self.visibility = "visible"
        self.about: dict[str, Any] = {}
        self.is_page = True  # false if the client is not a page but the command `mm_ros headset`
        self.frames: deque[int] = deque(maxlen=256)  # times of arrival
        self.ages_ms: deque[float] = deque(maxlen=90)  # times from the page's tracker samples to their arrival [ms]
        self.frame: wire.PageFrame | None = None  # the last one
        self.missed = 0  # number of the page's tracker frames that did not arrive
        self.pings: dict[int, int] = {}
        self.pinged = 0

    def rate(self, now_ns: int) -> float:
        return sum(1 for t in self.frames if now_ns - t < 1_000_000_000)


class HeadsetServer:
    """Server of the headset page, which runs in a thread of its own. The callback `on_frame(page, frame, stamp_ns)`
    runs in the server's thread and gets the stamp in CLOCK_MONOTONIC. The callback `on_change()` runs after a page has
    connected, disconnected or sent an action. The queue `actions` holds requests of users (calibration, …)."""

    def __init__(self, port: int, wifi: bool = False, host: str = "127.0.0.1") -> None:
        self.port, self.wifi = port, wifi
        self.token = session_token(certificates.folder() / "token")
        self.code = PairingCode()
        self.accesses = {False: Access(host, self.token, LIMITS), True: Access("0.0.0.0", self.token, LIMITS)}
        self.on_frame: Callable[[Page, wire.PageFrame, int], None] = lambda page, frame, stamp_ns: None
        # Function that receives the input of the page that steers the character, or None when this page disconnects.
        self.on_steering: Callable[[wire.Steering | None], None] | None = None
        # Function that receives names of body joints, time stamp in CLOCK_MONOTONIC [ns], and poses (N, 7) as received.
        self.on_body: Callable[[list[str], int, Any], None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.actions: Queue[tuple[Page, dict[str, Any]]] = Queue(maxsize=64)
        self.skins: dict[int, bytes] = {}
        self.pages: set[Page] = set()
        self.tracker: Page | None = None  # the page whose headset controls the avatar
        self.steering: Page | None = None  # the page that steers: the one on which a user most recently began to steer
        self.counts: Counter[str] = Counter()
        self._status: dict[str, Any] = {}
        self._pose: wire.PoseMessage | None = None
        self._sequence = 0
        self._pairing = 0  # number of open connections of devices that may still send a pairing code
        self._loop: asyncio.AbstractEventLoop | None = None
        self._files = {name: (STATIC / name).read_bytes() for name in {*PAGE_FILES, *PAIRING_FILES}}
        self._index, self._pair = (STATIC / "index.html").read_bytes(), (STATIC / "pair.html").read_bytes()

    # ---- methods that other threads call

    def start(self) -> None:
        """Start the server, or raise MmRosError if a port is in use or a certificate cannot be made."""
        try:
            import websockets.asyncio.server  # noqa: F401
        except ImportError:
            raise MmRosError(f"the headset page needs websockets: {setup_command('webxr')}") from None
        doors: list[tuple[socket.socket, ssl.SSLContext | None]] = [(self._bind("127.0.0.1", self.port), None)]
        if self.wifi:
            made = certificates.certificates()
            self.authority = made.authority.read_bytes()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(made.leaf, made.key)
            doors.append((self._bind("0.0.0.0", self.port + 1), context))
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(doors, started), name="headset page", daemon=True)
        self._thread.start()
        started.wait(10.0)

    def _bind(self, host: str, port: int) -> socket.socket:
        try:
            door = socket.create_server((host, port), backlog=64)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise MmRosError(
                f"cannot serve the headset page at {host}:{port} ({why}); choose another port: --port, or the "
                "parameter tracker_bridge.headset_port"
            ) from None
        # Without TCP_NODELAY, the kernel would delay each pose until the page has acknowledged the previous pose.
        # TCP_NODELAY is set on the listening socket and inherited by its connections, because asyncio sets it only on
        # sockets that name the protocol.
        door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return door

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(5.0)

    def url(self) -> str:
        return address("localhost", self.port, self.token)

    def wifi_urls(self) -> list[str]:
        """Return the addresses that a user types on the headset, where the page asks for the pairing code."""
        return [f"https://{ip}:{self.port + 1}" for ip in certificates.addresses()] if self.wifi else []

    @property
    def open_pages(self) -> int:
        return sum(1 for page in tuple(self.pages) if page.is_page)

    def show(self, pose: wire.PoseMessage, sequence: int) -> None:
        """Send the avatar's pose to all pages for which fewer than two poses are on the way. `sequence` is the number
        of the tracker frame from which the pose was computed."""
        if self._loop is not None and self.pages:
            with suppress(RuntimeError):  # RuntimeError is raised if the server's event loop has just ended
                self._loop.call_soon_threadsafe(self._offer, pose, sequence)

    def tell(self, status: dict[str, Any]) -> None:
        """Send the status of the ROS nodes to all headset pages, which show it."""
        self._in_loop(self._tell, status)

    def answer(self, page: Page, message: dict[str, Any]) -> None:
        """Send an answer to the page `page` whose user has requested an action."""
        self._in_loop(self._send_text, page, message)

    def tell_all(self, message: dict[str, Any]) -> None:
        self._in_loop(self._send_all, message)

    def _in_loop(self, do: Callable[..., Any], *arguments: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(do, *arguments)

    # ---- methods that run in the server's thread

    def _run(self, doors: list[tuple[socket.socket, ssl.SSLContext | None]], started: threading.Event) -> None:
        asyncio.run(self._serve(doors, started))

    async def _serve(
        self, doors: list[tuple[socket.socket, ssl.SSLContext | None]], started: threading.Event
    ) -> None:
        from websockets.asyncio.server import serve

        self._ending = asyncio.Event()
        # The messages of the package websockets are discarded, because they contain a traceback for each bad request.
        quiet = logging.getLogger("mm_ros.headset")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        servers = [
            await serve(
                self._attend, sock=door, ssl=context, process_request=self._judge(context is not None),
                compression=None, max_size=wire.LONGEST_BYTES, max_queue=32, ping_interval=5, ping_timeout=5,
                open_timeout=5, close_timeout=1, logger=quiet, server_header=None,
            )
            for door, context in doors
        ]  # fmt: skip
        self._loop = asyncio.get_running_loop()
        started.set()
        await self._ending.wait()
        for server in servers:
            server.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(server.wait_closed() for server in servers)), 3.0)

    def _judge(self, secure: bool) -> Callable[[Any, Any], Any]:
        access = self.accesses[secure]

        def judge(connection: Any, request: Any) -> Any:
            hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
            opens = "websocket" in request.headers.get("Upgrade", "").lower()
            asked = request.path.partition("?")[0]
            if secure and asked in PUBLIC:
                why = access.foreign(hosts, origins, opens)
                return _refusal(why) if why else self._public(asked, opens, hosts[0])
            path, why = access.admit(request.path, hosts, origins, opens)
            if why:
                return _refusal(why)
            if opens:
                if path != "/socket":
                    return _refusal("there is no WebSocket at this path", 404)
                return _refusal("too many pages are open", 503) if len(self.pages) >= LIMITS.clients else None
            return self._file(path, hosts[0])

        return judge

    def _public(self, path: str, opens: bool, host: str) -> Any:
        """Answer a request over Wi-Fi that has no token, with the page that asks for the pairing code or with the CA's
        certificate."""
        if opens:
            if path != "/pair":
                return _refusal("there is no WebSocket at this path", 404)
            return _refusal("too many devices ask for the code", 503) if self._pairing >= PAIRING else None
        if path == "/":
            self.counts["code_pages"] += 1
            return _response(self._pair, TYPES[".html"], host)
        if path == "/ca.crt":
            return _response(self.authority, "application/x-x509-ca-cert", host)
        name = path[1:]
        return _response(self._files[name], TYPES[Path(name).suffix], host) if name in PAIRING_FILES else _refusal(
            "this file does not exist", 404
        )

    def _file(self, path: str, host: str) -> Any:
        if path in ("/", "/index.html"):
            return _response(self._index, TYPES[".html"], host)
        name = path[1:]
        if name in PAGE_FILES:
            return _response(self._files[name], TYPES[Path(name).suffix], host)
        if re.fullmatch(r"skin/[0-9]{1,10}", name) and int(name[5:]) in self.skins:
            return _response(self.skins[int(name[5:])], "application/octet-stream", host)
        return _refusal("this file does not exist", 404)

    async def _attend(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        if connection.request.path.partition("?")[0] == "/pair":
            await self._pair_device(connection)
            return
        page = Page(connection)
        page.is_page = connection.request.path.partition("?")[2] != "watch"
        self.pages.add(page)
        pinging = asyncio.create_task(self._keep_pinging(page))
        self.on_change()
        self._send_text(page, {"kind": "status", **self._status_for(page)})
        try:
            async for message in connection:
                self._take(page, message)
        except ConnectionClosed:
            pass
        finally:
            pinging.cancel()
            self.pages.discard(page)
            if self.tracker is page:
                self.tracker = None
            if self.steering is page and self.on_steering is not None:
                self.steering = None
                self.on_steering(None)
            self.on_change()

    async def _pair_device(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        self._pairing += 1
        try:
            async with _within(60.0):
                for _ in range(MOST_CODES):
                    why = self.code.judge(await connection.recv())
                    self.counts["wrong_codes"] += bool(why)
                    await connection.send(json.dumps({"why": why} if why else {"token": self.token}))
        except ConnectionClosed:
            pass
        finally:
            self._pairing -= 1

    async def _keep_pinging(self, page: Page) -> None:
        while True:
            page.pinged += 1
            page.pings[page.pinged] = time.monotonic_ns()
            while len(page.pings) > 64:  # A page that hangs answers no pings, so the number of stored pings is limited.
                del page.pings[next(iter(page.pings))]
            self._send(page, wire.ping(page.pinged))
            await asyncio.sleep(FIRST_PING_S if page.pinged < FIRST_PINGS else PING_S)

    def _take(self, page: Page, message: str | bytes) -> None:
        now_ns = time.monotonic_ns()
        if not page.bucket.take():
            self._refuse(page, "too many messages")
            return
        try:
            if isinstance(message, str):
                self._take_text(page, message)
            else:
                self._take_bytes(page, message, now_ns)
        except wire.Malformed as error:
            self.counts["malformed"] += 1
            page.bad += 1
            if page.bad >= MOST_BAD:
                self._refuse(page, str(error)[:100])

    def _refuse(self, page: Page, why: str) -> None:
        self.counts["closed"] += 1
        self._close(page, 1008, why)

    def _close(self, page: Page, code: int, why: str) -> None:
        self._closing = asyncio.create_task(page.socket.close(code, why))

    def _take_bytes(self, page: Page, raw: bytes, now_ns: int) -> None:
        kind = raw[0] if raw else 0
        if kind == wire.FRAME:
            self._take_frame(page, raw, now_ns)
        elif kind == wire.PONG:
            number, page_ms = wire.read_pong(raw)
            sent_ns = page.pings.pop(number, None)
            if sent_ns is not None:
                page.clock.add(sent_ns, now_ns, page_ms)
        elif kind == wire.TICK and len(raw) == 4:
            self._grant(page, now_ns)
        elif kind == wire.STEER:
            self._steer(page, wire.read_steering(raw))
        elif kind == wire.BODY:
            _, joints = wire.read_body(raw)
            names = page.about.get("joints", [])
            if page is self.tracker and page.clock.known and self.on_body is not None and len(names) == len(joints):
                # Body joints get the stamp of the last tracker frame, because the page samples both at once.
                self.on_body(names, page.clock.last_ns, joints)
        else:
            raise wire.Malformed(f"message of the unknown kind {kind}, {len(raw)} bytes")

    def _take_frame(self, page: Page, raw: bytes, now_ns: int) -> None:
        frame = wire.read_frame(raw)
        if not frame.session or frame.session != page.session:
            raise wire.Malformed("frame: the page has started no session")
        if page.frame is not None and page.frame.session == frame.session:
            page.missed += max(0, frame.sequence - page.frame.sequence - 1)
        page.frame = frame
        page.frames.append(now_ns)
        if page is not self.tracker:
            self._grant(page, now_ns)
            return
        # No pose is sent here: the pose for this tracker frame will be ready within milliseconds. If the previous pose
        # were sent now, every pose would be one frame late.
        page.credit = min(page.credit + 1, UNDER_WAY)
        if page.clock.known:
            stamp_ns = page.clock.stamp_ns(frame.time_ms, frame.lead_ms, now_ns)
            page.ages_ms.append((now_ns - stamp_ns) * 1e-6)
            self.on_frame(page, frame, stamp_ns)

    def _steer(self, page: Page, steering: wire.Steering) -> None:
        if self.on_steering is None:
            return
        if steering.takes and self.steering is not page:
            self.steering = page
            self._tell(self._status)  # The status is sent at once, so that all pages show which page steers.
        if self.steering is page:
            self.on_steering(steering)

    def _take_text(self, page: Page, text: str) -> None:
        try:
            request = json.loads(text)
        except (ValueError, RecursionError):
            raise wire.Malformed("text: expected JSON") from None
        if not isinstance(request, dict) or not isinstance(request.get("do"), str):
            raise wire.Malformed("text: expected an action")
        do = request["do"]
        if do == "session":
            self._session(page, request)
        elif do == "about":
            page.about = _checked_about(request)
        elif do == "visibility" and request.get("state") in ("visible", "visible-blurred", "hidden"):
            page.visibility = request["state"]
        elif do in ("calibrate", "database", "engine", "control", "goal"):
            with suppress(Full):
                self.actions.put_nowait((page, request))
        else:
            raise wire.Malformed(f"text: the action '{do[:20]}' does not exist")
        self.on_change()

    def _session(self, page: Page, request: dict[str, Any]) -> None:
        """Process the message of a headset page that has entered or left VR. The headset of the page that entered VR
        last is tracked, and the previous tracked page is disconnected."""
        number = request.get("number", 0)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**32:
            raise wire.Malformed("session: expected a number")
        page.session, page.mode = number, str(request.get("mode", ""))[:20]
        page.visibility = "visible"
        if number and self.tracker is not page:
            before, self.tracker = self.tracker, page
            if before is not None:
                self._close(before, TAKEN_OVER, "another headset took over")
        elif not number and self.tracker is page:
            self.tracker = None

    # ---- poses

    def _offer(self, pose: wire.PoseMessage, sequence: int) -> None:
        self._pose, self._sequence = pose, sequence
        now_ns = time.monotonic_ns()
        for page in self.pages:
            if page.credit > 0:
                self._send_pose(page, pose, now_ns)

    def _grant(self, page: Page, now_ns: int) -> None:
        """Answer a page that requests a pose and whose headset is not tracked: send the newest pose, or the next pose
        if the page already has the newest."""
        page.credit = min(page.credit + 1, UNDER_WAY)
        if self._pose is not None and page.sent is not self._pose:
            self._send_pose(page, self._pose, now_ns)

    def _send_pose(self, page: Page, pose: wire.PoseMessage, now_ns: int) -> None:
        page.credit -= 1
        page.sent = pose
        self._send(page, pose.raw(self._sequence if page in (self.tracker, self.steering) else 0, now_ns))

    # ---- status

    def _tell(self, status: dict[str, Any]) -> None:
        self._status = status
        for page in self.pages:
            self._send_text(page, {"kind": "status", **self._status_for(page)})

    def _status_for(self, page: Page) -> dict[str, Any]:
        now_ns = time.monotonic_ns()
        tracker = self.tracker
        pages = self.open_pages
        link = {"trip_ms": round(page.clock.trip_ms, 2), "pages": pages}
        seen = {"pages": pages, **{name: self.counts[name] for name in ("code_pages", "wrong_codes")}}
        session: dict[str, Any] = {"active": tracker is not None, "own": tracker is page}
        if tracker is not None:
            session |= {
                "mode": tracker.mode, "visibility": tracker.visibility, "hz": tracker.rate(now_ns),
                "lead_ms": round(tracker.clock.lead_ms, 1), "missed": tracker.missed,
                "trip_ms": round(tracker.clock.trip_ms, 2),
                "age_ms": round(median(tracker.ages_ms), 2) if tracker.ages_ms else 0.0,
            }  # fmt: skip
        steering = None
        if self.on_steering is not None:
            steering = {"own": self.steering is page, "other": self.steering not in (None, page)}
        inspector = other_page(INSPECTOR_VARIABLE)
        return {
            "version": __version__, "link": link, "session": session, "seen": seen, "inspector": inspector,
            "steering": steering, **self._status,
        }  # fmt: skip

    def _send_text(self, page: Page, message: dict[str, Any]) -> None:
        self._send(page, json.dumps(message, allow_nan=False, default=str))

    def _send_all(self, message: dict[str, Any]) -> None:
        for page in self.pages:
            self._send_text(page, message)

    def _send(self, page: Page, message: str | bytes) -> None:
        """Send a message without waiting; flow control keeps the queue of the socket short."""
        from websockets.asyncio.server import broadcast

        if page in self.pages and page.socket.transport.get_write_buffer_size() < 1 << 20:
            broadcast([page.socket], message)


class _within:
    """Replaces the function `asyncio.timeout`, which Python 3.10 lacks."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handle = asyncio.get_running_loop().call_later(self._seconds, task.cancel)

    async def __aexit__(self, kind: Any, *_: Any) -> bool:
        self._handle.cancel()
        return kind is asyncio.CancelledError


def _checked_about(request: dict[str, Any]) -> dict[str, Any]:
    joints = request.get("joints", [])
    if not isinstance(joints, list) or len(joints) > wire.MOST_JOINTS or not all(isinstance(j, str) for j in joints):
        raise wire.Malformed("about: expected names of joints")
    return {"device": str(request.get("device", ""))[:200], "joints": [j[:60] for j in joints]}


def _response(body: bytes, kind: str, host: str) -> Any:
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    policy = {"Content-Security-Policy": POLICY.format(host=host)}
    headers = {**HEADERS, **ISOLATION, **policy, "Content-Type": kind, "Content-Length": str(len(body))}
    return Response(200, "OK", Headers({**headers, "Connection": "close"}), body)


def _refusal(sentence: str, status: int = 403) -> Any:
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    body = (sentence + "\n").encode()
    headers = {**HEADERS, "Content-Type": TYPES[".txt"], "Content-Length": str(len(body)), "Connection": "close"}
    return Response(status, "Refused", Headers(headers), body)
