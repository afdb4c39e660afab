"""README's pictures, from the real thing: `make pictures`.

docs/pictures/walk.gif is the demo's own film (the real graph over DDS); docs/pictures/viewer.png is the page in a
headless Chromium, where there is one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from chromium import FLAGS
from PIL import Image

TOP = Path(__file__).resolve().parents[1]
PICTURES = TOP / "docs" / "pictures"
PORT = 8471
TAKES = 6


def film() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "walk"
        command = [sys.executable, "-m", "mm_ros", "demo", "--seconds", "30", "--headless", "--seed", "1"]
        subprocess.run([*command, "--output", str(made)], check=True, cwd=TOP)
        shrink(made.with_suffix(".gif"), PICTURES / "walk.gif")
        shutil.copy(made.with_suffix(".png"), PICTURES / "walk.png")


def shrink(source: Path, target: Path, width: int = 340) -> None:
    """Half the frames, fewer colours: a picture for a README is below a megabyte."""
    film = Image.open(source)
    frames = []
    for i in range(0, film.n_frames, 2):
        film.seek(i)
        picture = film.convert("RGB")
        small = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
        frames.append(small.quantize(40, dither=Image.Dither.NONE))
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=160, loop=0, optimize=True)


def page() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium: docs/pictures/viewer.png stays as it is")
        return
    from playwright.sync_api import sync_playwright

    environment = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": "97"}
    words = (["up", "--seed", "1"], ["view", "--port", str(PORT)])
    running = [subprocess.Popen([sys.executable, "-m", "mm_ros", *w], cwd=TOP, env=environment) for w in words]
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
            shot = browser.new_page(viewport={"width": 1000, "height": 600})
            shot.set_default_timeout(240_000)
            open_page(shot)
            shot.wait_for_selector("canvas")
            shot.get_by_text(re.compile(r"latency p99 \d")).wait_for()
            shot.locator(".mantine-Notification-closeButton").first.click(force=True)  # 'slow renderer'
            shot.mouse.move(300, 500)
            takes = []
            for _ in range(TAKES):
                shot.wait_for_timeout(4000)
                takes.append(Image.open(BytesIO(shot.screenshot())).convert("RGB"))
            browser.close()
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
            process.wait(15)
    best = max(takes, key=liveliness)
    best.save(PICTURES / "viewer.png", optimize=True)


def open_page(shot: Any) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            shot.goto(f"http://127.0.0.1:{PORT}")
            return
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def liveliness(picture: Image.Image) -> int:
    """Pixels with much colour: the picture in which the avatar is nearest and strides widest."""
    return int((np.ptp(np.asarray(picture, np.int16)[:, :640], axis=2) > 60).sum())


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    film()
    page()
