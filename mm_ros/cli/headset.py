"""`mm_ros headset`: run the graph for the browser of a headset, and print what the user must do to enter VR."""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.cli.arguments import add_database, add_number, port
from mm_ros.cli.demo import Processes, free_port
from mm_ros.web.access import (
    CODE_VARIABLE,
    HEADSET_VARIABLE,
    INSPECTOR_VARIABLE,
    TOKEN_VARIABLE,
    PairingCode,
    address,
    session_token,
)

HELP = "wear your avatar: run the graph for a headset's browser (Quest, Pico, Vision Pro)"

EXAMPLE = """examples:
  mm_ros headset            headset on USB: adb opens the page on it; press 'Enter VR'
  mm_ros headset --wifi     headset in the same Wi-Fi: prints an address and a code
  mm_ros headset --forget   delete the certificates and the token of this computer"""

PATIENCE_S = 20.0
STARTS_WITHIN_S = 180.0  # A graph that has not started after this time counts as failed.
LOOK_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--wifi", action="store_true", help="also serve the page to the Wi-Fi, encrypted")
    parser.add_argument(
        "--port", type=port, default=8090, metavar="PORT",
        help="port of the page on this machine; the Wi-Fi uses the next one (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--serial", default="", help="serial number of the headset, if adb finds several devices")
    add_database(parser)
    parser.add_argument("--no-inspector", action="store_true", help="do not serve the inspector page (mm_ros view)")
    add_number(parser, "--seconds", default=0.0, help="stop after this time (default: stop at Ctrl-C)")
    parser.add_argument("--forget", action="store_true", help="delete certificates, keys and token, and end")


def run(args: argparse.Namespace) -> int:
    from mm_ros.web.headset import certificates

    if args.forget:
        gone = certificates.forget()
        print(f"deleted in {certificates.folder()}: {', '.join(gone)}" if gone else "there was nothing to delete")
        print("remove the certificate from the headset too, if you installed it there: docs/headset.md")
        return 0
    if find_spec("websockets") is None:
        raise MmRosError(f"the headset page needs websockets: {setup_command('webxr')}")
    os.environ.setdefault("ROS_DOMAIN_ID", "0")
    token = os.environ[TOKEN_VARIABLE] = session_token(certificates.folder() / "token")
    code = os.environ.setdefault(CODE_VARIABLE, PairingCode().digits)
    if args.wifi:
        certificates.certificates()  # If the program openssl is missing, an error is reported before the node starts.
    from mm_ros.cli import warm

    print("preparing database and kernels (slow at the first start) …", flush=True)
    warm.run(argparse.Namespace(quiet=True, database=args.database, control="vr"))
    url = address("localhost", args.port, token)
    with Processes() as processes:
        _start(args, processes, url)
        watch = Watch(args.port, token)
        try:
            if not watch.wait(STARTS_WITHIN_S, processes.check):
                raise MmRosError("the graph did not start; see its messages above")
            _lead(args, url, code, token, watch, processes.check)
        finally:
            watch.close()
    return 0


def _start(args: argparse.Namespace, processes: Processes, url: str) -> None:
    if not args.no_inspector and find_spec("viser") is not None:
        inspector = address("127.0.0.1", inspector_port := free_port(8080), os.environ[TOKEN_VARIABLE])
        os.environ[INSPECTOR_VARIABLE], os.environ[HEADSET_VARIABLE] = inspector, url
        print(f"settings and plots: {inspector}", flush=True)
        processes.start("view", "--port", str(inspector_port))
    graph = ["up", "--trackers", "webxr", "-p", f"tracker_bridge.headset_port={args.port}"]
    graph += ["-p", "tracker_bridge.headset_wifi=true"] if args.wifi else []
    graph += ["--database", str(args.database)] if args.database else []
    processes.start(*graph)


def _lead(
    args: argparse.Namespace, url: str, code: str, token: str, watch: Watch, ended: Callable[[], str]
) -> None:
    """Print how to connect the headset by USB or Wi-Fi, then print what the user must do next, until the graph ends."""
    from mm_ros.web.headset import certificates, ways

    say(f"the page, also to watch from outside: {url}")
    say("1. USB (Quest, Pico)")
    usb = ways.by_usb(args.port, url, args.serial)
    for line in usb.lines:
        say(f"   {line}")
    say("2. Wi-Fi (all headsets)")
    if args.wifi:
        urls = [f"https://{ip}:{args.port + 1}" for ip in certificates.addresses()]
        for line in [*ways.wifi_lines(urls, code, token), *ways.firewalls(args.port + 1)]:
            say(f"   {line}")
        for line in ways.qr_code(f"{urls[0]}/{token}/") if urls else []:
            print(f"   {line}", flush=True)
    else:
        say("   start `mm_ros headset --wifi`")
    say("then put the headset on, press 'Enter VR', and stand upright for three seconds")
    last, began, reported = "", time.monotonic(), False
    while not ended() and not _over(args, began):
        step = ways.progress(watch.status)
        session = (watch.status or {}).get("session", {})
        text = step or (f"in VR, {session.get('hz', 0):.0f} poses per second" if session.get("active") else "")
        kind = text.partition(",")[0]
        if text and kind != last:
            say(text)
            last = kind
        if not text and not reported and time.monotonic() - began > PATIENCE_S:
            reported = True
            say(f"nothing came from a headset within {PATIENCE_S:g} s:")
            for line in ways.nothing_came(args.wifi, usb, args.port):
                say(f"   {line}")
        watch.wait_for_news(LOOK_S)


def _over(args: argparse.Namespace, began: float) -> bool:
    from mm_ros.base import ending

    return ending.asked() or bool(args.seconds and time.monotonic() - began > args.seconds)


def say(text: str) -> None:
    print(text, flush=True)


class Watch:
    """Client of the headset page's server, which receives only the status messages for pages."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self.status: dict[str, Any] | None = None
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, seconds: float, ended: Callable[[], str]) -> bool:
        """Wait for a status message; return False if none arrives within `seconds` or before `ended()` is true."""
        until = time.monotonic() + seconds
        while self.status is None and time.monotonic() < until and not ended():
            self.wait_for_news(0.2)
        return self.status is not None

    def wait_for_news(self, seconds: float) -> None:
        self._news.wait(seconds)
        self._news.clear()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(3.0)

    def _follow(self) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        where = f"localhost:{self._port}"
        while not self._stop.is_set():
            try:
                with connect(
                    f"ws://{where}/{self._token}/socket?watch", origin=f"http://{where}",
                    compression=None, open_timeout=5,
                ) as page:
                    page.send(json.dumps({"do": "about", "device": "mm_ros headset"}))
                    while not self._stop.is_set():
                        self._take(page)
            except (OSError, WebSocketException):
                self._stop.wait(0.3)

    def _take(self, page: Any) -> None:
        try:
            message = page.recv(timeout=0.5)
        except TimeoutError:
            return
        if isinstance(message, str):
            content = json.loads(message)
            if content.get("kind") == "status":
                self.status = content
                self._news.set()

