"""Make the pictures of the README from a running graph: `make pictures`.

docs/pictures/walk.gif is the film of `mm_ros demo`. docs/pictures/viewer.png shows the inspector page in a headless
Chromium, and is made if Chromium is installed (with `--page`, only this picture is made).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from chromium import CHROMIUM, Browser
from PIL import Image

from mm_ros.base.own_python import module_command
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT
from mm_ros.maths import rotations as rot
from mm_ros.web.access import TOKEN_VARIABLE, address, new_token, session_token

TOP = Path(__file__).resolve().parents[1]
PICTURES = TOP / "docs" / "pictures"
PORT = 8471
TAKES, SETTLE_S, PATIENCE_S, MOMENT_S = 3, 6.0, 60.0, 25.0
TO_CAMERA = np.array([2.5, -2.7]) / np.hypot(2.5, -2.7)
STRIDE_M = 0.45


def film() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "walk"
        command = module_command("mm_ros", "demo", "--seconds", "30", "--headless", "--seed", "1")
        subprocess.run([*command, "--output", str(made)], check=True, cwd=TOP)
        shrink(made.with_suffix(".gif"), PICTURES / "walk.gif")
        shutil.copy(made.with_suffix(".png"), PICTURES / "walk.png")


def shrink(source: Path, target: Path, width: int = 340) -> None:
    """Halve the frames and reduce the colours, so that the file is smaller than a megabyte."""
    film = Image.open(source)
    frames = []
    for i in range(0, film.n_frames, 2):
        film.seek(i)
        picture = film.convert("RGB")
        small = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
        frames.append(small.quantize(40, dither=Image.Dither.NONE))
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=160, loop=0, optimize=True)


def page() -> None:
    if CHROMIUM is None:
        print("no chromium: docs/pictures/viewer.png is not changed")
        return
    from playwright.sync_api import sync_playwright

    os.environ |= {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": "97", TOKEN_VARIABLE: new_token()}
    words = (["up", "--seed", "1"], ["view", "--port", str(PORT)])
    running = [subprocess.Popen(module_command("mm_ros", *w), cwd=TOP) for w in words]
    try:
        with sync_playwright() as p:
            browser = Browser(p)
            takes = photographs(browser.new_page(viewport={"width": 1000, "height": 600}), running)
            browser.close()
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
            process.wait(15)
    max(takes, key=liveliness).save(PICTURES / "viewer.png", optimize=True)


def photographs(shot: Any, running: list[subprocess.Popen[bytes]]) -> list[Image.Image]:
    shot.set_default_timeout(PATIENCE_S * 1000)
    open_page(shot)
    shot.get_by_text(re.compile(r"latency p99 \d")).wait_for()
    with suppress(Exception):  # hides viser's notification 'slow renderer' without a GPU
        shot.locator(".mantine-Notification-closeButton").first.click(force=True, timeout=8000)
    shot.mouse.move(300, 350)
    shot.mouse.wheel(0, -220)  # nearer
    shot.wait_for_timeout(SETTLE_S * 1000)
    takes = []
    with Moments("avatar") as moments:
        for _ in range(TAKES):
            moments.wait(MOMENT_S)
            takes.append(still(shot, running))
            shot.wait_for_timeout(SETTLE_S * 1000)
    return takes


def still(shot: Any, running: list[subprocess.Popen[bytes]]) -> Image.Image:
    """Take a screenshot while graph and viewer are paused: a browser that draws in software needs the whole CPU."""
    for process in running:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)  # the viewer still sends the last pose to the browser
    try:
        shot.wait_for_timeout(1500)
        return Image.open(BytesIO(shot.screenshot())).convert("RGB")
    finally:
        for process in running:
            process.send_signal(signal.SIGCONT)


class Moments:
    """Context whose method `wait` waits until the avatar walks toward the camera."""

    def __init__(self, avatar: str) -> None:
        self._avatar = avatar

    def __enter__(self) -> "Moments":
        import rclpy

        from mm_ros.ros.observer import Observer

        rclpy.init(args=[])
        self._observer = Observer(self._avatar, film_rate=30.0)
        return self

    def __exit__(self, *_: Any) -> None:
        import rclpy

        self._observer.destroy_node()
        rclpy.try_shutdown()

    def wait(self, seconds: float) -> None:
        import rclpy

        until, film = time.monotonic() + seconds, self._observer.seen.film
        film.clear()
        while time.monotonic() < until:
            rclpy.spin_once(self._observer, timeout_sec=0.1)
            if film and photogenic(film[-1].pose):
                return


def photogenic(pose: Any) -> bool:
    facing = rot.rotate(pose.root[3:], np.array([1.0, 0.0, 0.0]))[:2]
    feet = np.ptp(room_joints(pose)[0][[LEFT_FOOT, RIGHT_FOOT], :2], axis=0)
    return bool(facing @ TO_CAMERA > 0.4 and np.hypot(*feet) > STRIDE_M)


def open_page(shot: Any) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            shot.goto(address("127.0.0.1", PORT, session_token()))
            return
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def liveliness(picture: Image.Image) -> int:
    """Return the number of saturated pixels, which is large when the avatar is near and its stride long."""
    return int((np.ptp(np.asarray(picture, np.int16)[:, :640], axis=2) > 60).sum())


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    if "--page" not in sys.argv:
        film()
    page()
