"""`mm_ros demo`: run the whole graph with a synthetic user and show it in the browser or write a film."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mm_ros.base import ending
from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.own_python import module_command
from mm_ros.base.workers import deaf_to_ctrl_c
from mm_ros.cli.arguments import add_database, add_number, add_output, port
from mm_ros.cli.output import add_json, write_json
from mm_ros.trajectory import CONTROLS
from mm_ros.web.access import (
    CODE_VARIABLE,
    HEADSET_VARIABLE,
    INSPECTOR_VARIABLE,
    TOKEN_VARIABLE,
    PairingCode,
    address,
    session_token,
)

HELP = "show an avatar that follows a synthetic user, keys, a gamepad or a path, in the browser"

EXAMPLE = """examples:
  mm_ros demo                          run until Ctrl-C; open the printed address in a browser
  mm_ros demo --seconds 20 --headless  no browser: write demo.gif and demo.png, print the summary
  mm_ros demo --control joystick       steer the avatar by a gamepad on the topic /avatar/joy; until then by a script
  mm_ros demo --control keyboard       steer it by keys, gamepad or touch on the printed page
  mm_ros demo --control path           the avatar walks along a path, and to each point that you click on the page
  mm_ros demo --urdf robot.urdf        a humanoid robot follows beside the avatar (extra robot)
  mm_ros demo --session recording/     use a recorded session instead of the synthetic user"""

FILM_RATE, FILM_SECONDS = 12.5, 8.0
FIRST_POSE_S = 60.0
WAYS = {"keyboard": "steer the avatar by keys, gamepad or touch at", "path": "set the path by clicks on the floor at"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_number(parser, "--seconds", default=0.0, help="stop after this time (default: stop at Ctrl-C)")
    parser.add_argument(
        "--headless", action="store_true", help="write a film and a picture instead of serving the page"
    )
    parser.add_argument(
        "--control", default="vr", choices=CONTROLS,
        help="what leads the avatar: a synthetic user with a headset (vr), a gamepad, keys on a page, or a path "
        "(default: %(default)s); a script steers until other input arrives, and always with --headless",
    )  # fmt: skip
    parser.add_argument("--session", type=Path, help="use a recorded session instead of the synthetic user")
    add_database(parser)
    parser.add_argument(
        "--port", type=port, default=8080, metavar="PORT", help="port of the page (default: %(default)s)"
    )
    parser.add_argument("--urdf", default="", help="robot file of a humanoid that follows (URDF, xacro, MJCF)")
    add_number(parser, "--seed", default=0, help="seed of the synthetic user (default: %(default)s)")
    add_output(
        parser, "film and picture of --headless: PATH.gif, PATH.png (default: %(default)s)", default=Path("demo")
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    from mm_ros.ros.reach import settle_reach

    settle_reach("LOCALHOST")
    if args.session and not args.session.exists():
        raise MmRosError(f"session {args.session} does not exist. Make one: mm_ros synth session -o {args.session}")
    if args.session and args.control != "vr":
        raise MmRosError("--session is the recording of a headset; it cannot be combined with --control")
    if args.control == "keyboard" and not args.headless and find_spec("websockets") is None:
        raise MmRosError(f"the page that steers needs websockets: {setup_command('webxr')}")
    if args.urdf:
        from mm_ros.robot.figure import read_figure

        read_figure(args.urdf)  # A wrong robot file is refused before any process starts.
    # A DDS domain number from the process id separates the demo from other ROS graphs on this machine.
    os.environ.setdefault("ROS_DOMAIN_ID", str(20 + os.getpid() % 80))
    _prepare(args)
    from mm_ros.ros.demo import Demo

    with Processes() as processes:
        _start(args, processes)
        demo = Demo("avatar", FILM_RATE if args.headless else 0.0, FILM_SECONDS)
        with demo:
            if args.control != "keyboard" or args.headless:
                demo.steer(args.control, args.seed)
            if not demo.wait_for_pose(FIRST_POSE_S, processes.check):
                print("mm_ros: no pose received; see the messages of the graph above", file=sys.stderr)
                return 1
            print(f"first pose {time.monotonic() - started:.1f} s after the start")
            demo.watch(args.seconds, processes.check)
        summary = demo.summary()
    _print_summary(summary)
    if args.headless:
        summary |= demo.write_film(args.output)
        if args.urdf:
            summary |= demo.write_robot_film(args.output, args.urdf)
    write_json(args.json, summary)
    return 0 if summary["poses"] else 1


def _prepare(args: argparse.Namespace) -> None:
    """Build the default database and compile all functions of numba, which takes long at the first start."""
    from mm_ros.cli import warm

    print("1/3 database and kernels (created at the first start, then cached) …", flush=True)
    warm.run(argparse.Namespace(quiet=False, database=args.database, control=args.control))


def _start(args: argparse.Namespace, processes: Processes) -> None:
    scripted = args.headless and args.control == "keyboard"  # without a page, a script moves a simulated stick
    graph = ["up", "--avatar", "avatar", "--seed", str(args.seed)]
    graph += ["--control", "joystick" if scripted else args.control]
    graph += ["--database", str(args.database)] if args.database else []
    graph += ["--urdf", args.urdf] if args.urdf else []
    graph += ["--trackers", "none"] if args.session else []
    first = {"vr": "trackers → orientation", "path": "path"}.get(args.control, "stick and keys")
    graph += ["-p", "path_control.loop=true"] if args.control == "path" else []
    print(f"2/3 graph: {first} → trajectory → match → pose → TF", flush=True)
    if args.headless:
        processes.start(*graph)
    else:
        os.environ[TOKEN_VARIABLE] = token = session_token()
        inspector = address("127.0.0.1", _next_free(args), token)
        if args.control in ("keyboard", "path"):
            node = "path_control" if args.control == "path" else "joystick_control"
            port = free_port(args.port + 10)
            os.environ[INSPECTOR_VARIABLE] = inspector
            os.environ[HEADSET_VARIABLE] = page = address("localhost", port, token)
            # With a pairing code in its environment, the graph does not print the address of the page.
            os.environ.setdefault(CODE_VARIABLE, PairingCode().digits)
            graph += ["--page", "-p", f"{node}.page_port={port}"]
            print(f"    {WAYS[args.control]}: {page}", flush=True)
        processes.start(*graph)
        print(f"3/3 viewer at {inspector}", flush=True)
        processes.start("view", "--port", str(args.port), *(["--urdf", args.urdf] if args.urdf else []))
    if args.session:
        processes.start("replay", str(args.session), "--avatar", "avatar", "--loop")


def _next_free(args: argparse.Namespace) -> int:
    wanted, args.port = args.port, free_port(args.port)
    if args.port != wanted:
        print(f"    port {wanted} is in use; the page uses the next free port", flush=True)
    return int(args.port)


def free_port(wanted: int) -> int:
    """Return the port number `wanted` if this port is free, or else the next free port number."""
    for candidate in range(wanted, min(wanted + 50, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return candidate
    raise MmRosError(f"no free port from {wanted} on; choose another one with --port")


class Processes:
    """Child processes of the demo, which end with the demo even if the terminal is closed or the demo is killed."""

    def __init__(self) -> None:
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, *words: str) -> None:
        from mm_ros.base.process import end_with_parent

        environment = {**os.environ, ending.PARENT: str(os.getpid())}
        # Each child process calls `ends` between fork and exec, so that it ends with the demo even during its imports.
        ends = partial(end_with_parent, os.getpid())
        with deaf_to_ctrl_c():  # Child processes ignore Ctrl-C, because the demo stops them in the right order.
            started = subprocess.Popen(
                module_command("mm_ros", *words),
                start_new_session=True, env=environment, preexec_fn=ends,  # noqa: PLW1509 (no other thread)
            )  # fmt: skip
        self._running.append((words[0], started))

    def pids(self) -> list[int]:
        return [p.pid for _name, p in self._running]

    def check(self) -> str:
        """Return the name of a child process of the demo that has ended, or '' if all child processes run."""
        return next((name for name, p in self._running if p.poll() is not None), "")

    def __enter__(self) -> Processes:
        # Ctrl-C and SIGTERM raise an exception in the main thread; `__exit__` then stops the child processes in order.
        if threading.current_thread() is threading.main_thread():
            ending.remember(signal.SIGTERM)
        return self

    def __exit__(self, *_: Any) -> None:
        for _name, p in reversed(self._running):
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 10
        for _name, p in self._running:
            try:
                p.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def _print_summary(summary: dict[str, Any]) -> None:
    print("\nsummary")
    for name, value in summary.items():
        text = "–" if value is None else f"{value:.2f}" if isinstance(value, float) else value
        print(f"  {name.replace('_', ' '):<24} {text}")
