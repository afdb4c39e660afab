"""README's pictures, from the real thing: `make pictures`.

docs/pictures/walk.gif is the demo's own film (the real graph over DDS); docs/pictures/viewer.png is the page in a
headless Chromium, where there is one.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

TOP = Path(__file__).resolve().parents[1]
PICTURES = TOP / "docs" / "pictures"
PORT = 8471
FLAGS = [
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]  # fmt: skip


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
        time.sleep(15)
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
            shot = browser.new_page(viewport={"width": 1100, "height": 640})
            shot.goto(f"http://127.0.0.1:{PORT}")
            shot.wait_for_selector("canvas", timeout=60_000)
            shot.wait_for_timeout(20_000)
            shot.screenshot(path=str(PICTURES / "viewer.png"))
            browser.close()
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
            process.wait(15)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    film()
    page()
