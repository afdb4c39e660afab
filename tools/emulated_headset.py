"""Run the headset page in a headless Chromium, in which IWER (Meta's emulator of WebXR) emulates a headset.

`python tools/emulated_headset.py [--seconds 20] [--pictures FOLDER]` starts a graph with the tracker source webxr and
an emulated user who walks in a circle, and prints what the graph receives. With `--pictures` the user stands before the
mirror in the virtual room, and pictures of both eyes and of the page on a screen are written.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from chromium import CHROMIUM, Browser, free_port

TOP = Path(__file__).resolve().parents[1]
FOLDER = TOP / "tools" / "headset_page"
IWER = FOLDER / "node_modules" / "iwer" / "build" / "iwer.min.js"

# IWER marks the poses of all controllers as emulated; a real device does so only while it has lost a controller.
# `__tracked` sets or clears this mark. If `__lost` is true, the pose of the head is hidden, which IWER cannot do.
EMULATOR = """
window.__xr = new IWER.XRDevice(IWER.metaQuest3, {stereoEnabled: true});
__xr.installRuntime({forceInstall: true});
const inside = (o) => o[Object.getOwnPropertySymbols(o).find((k) => o[k] && 'emulated' in o[k])];
window.__tracked = (side, yes) => { for (const kind of [__xr.controllers, __xr.hands])
  inside(kind[side].inputSource.gripSpace).emulated = !yes; };
window.__offset = (side) => Array.from(inside(__xr.controllers[side].inputSource.gripSpace).offsetMatrix);
window.__put = (what, p, q) => { what.position.set(...p); what.quaternion.set(...q); };
window.__place = (head, left, right) => { __put(__xr, ...head);
  if (left) __put(__xr.controllers.left, ...left); if (right) __put(__xr.controllers.right, ...right); };
window.__lost = false;
const viewer = XRFrame.prototype.getViewerPose;
XRFrame.prototype.getViewerPose = function (space) { return window.__lost ? null : viewer.call(this, space); };
"""

# A software renderer needs far longer than the duration of a frame, so the page draws only frames whose picture is
# requested. The picture is taken at once, because the emulator clears the canvas.
DRAW_ON_REQUEST = """() => { const r = mmRosPage.room.renderer, draw = r.render;
  r.render = (...all) => { if (!window.__draw) return; window.__draw = false; draw.apply(r, all);
    window.__picture = r.domElement.toDataURL(); }; }"""


def why_not() -> str:
    """Return the reason why this machine cannot emulate a headset, or "" if it can."""
    if CHROMIUM is None:
        return "chromium is not installed: apt install chromium"
    if not IWER.is_file():
        return "IWER is not installed: make page (needs npm)"
    return ""


class EmulatedHeadset:
    """The headset page in a browser tab of its own, with an emulated Quest 3 that moves only by calls of `place`."""

    def __init__(self, browser: Browser, url: str, size: tuple[int, int] = (320, 200)) -> None:
        self.browser = browser
        self.page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.add_init_script(IWER.read_text() + EMULATOR)
        self.page.goto(url)
        self.until("Boolean(window.mmRosPage) && !document.getElementById('vr').hidden")
        self.page.evaluate(DRAW_ON_REQUEST)

    def evaluate(self, text: str, argument: Any = None) -> Any:
        return self.page.evaluate(text, argument)

    def until(self, condition: str, seconds: float = 180.0, what: str = "") -> Any:
        """Wait until the JavaScript expression `condition` is true on the page. Playwright's own method cannot be used,
        because it needs eval, which the page's security policy forbids."""
        end = time.monotonic() + seconds
        while not (value := self.page.evaluate(condition)):
            assert time.monotonic() < end, f"{what or condition}: not within {seconds:g} s; {self.errors}"
            self.page.wait_for_timeout(30)
        return value

    def enter(self, mode: str = "vr", head: tuple[float, ...] = (0.0, 1.6, 0.0)) -> None:
        self.evaluate("p => __xr.position.set(...p)", list(head))
        self.page.click(f"#{mode}")
        self.until("Boolean(mmRosPage.tracking.session) && mmRosPage.tracking.sequence > 0")
        self.evaluate("for (const s of ['left', 'right']) {__xr.controllers[s].connected = true; __tracked(s, true); }")

    def picture(self) -> bytes:
        """Draw one frame of the page and return it as PNG; in VR, it shows the pictures of both eyes side by side."""
        self.evaluate("window.__picture = ''; window.__draw = true")
        text = self.until("window.__picture", what="a frame is drawn")
        return base64.b64decode(text.partition(",")[2])

    def leave(self) -> None:
        self.evaluate("mmRosPage.tracking.session.end()")
        self.until("!mmRosPage.tracking.session")

    def place(self, head: Any, left: Any = None, right: Any = None) -> None:
        """Move head and controller grips to poses in WebXR axes: position (x, y, z) and quaternion (x, y, z, w)."""
        hands = [self._ray(side, pose) for side, pose in (("left", left), ("right", right))]
        self.evaluate("([h, l, r]) => __place(h, l, r)", [_plain(head), *hands])

    def _ray(self, side: str, grip: Any) -> Any:
        """Return the pose of a controller's target ray, which IWER needs, from that of its grip: grip · offset⁻¹."""
        if grip is None:
            return None
        if not hasattr(self, "_offsets"):
            self._offsets = {
                s: np.array(self.evaluate("s => __offset(s)", s)).reshape(4, 4).T for s in ("left", "right")
            }
        ray = _matrix(*grip) @ np.linalg.inv(self._offsets[side])
        return _plain((ray[:3, 3], _quaternion(ray[:3, :3])))

    def close(self) -> None:
        self.browser.close_page(self.page)


def _plain(pose: Any) -> list[list[float]]:
    return [[float(v) for v in part] for part in pose]


def _matrix(position: Any, q: Any) -> Any:
    x, y, z, w = np.asarray(q, float) / np.linalg.norm(q)
    out = np.eye(4)
    out[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    out[:3, 3] = position
    return out


def _quaternion(r: Any) -> Any:
    """Quaternion x, y, z, w of a rotation matrix, as the eigenvector of Bar-Itzhack's matrix."""
    k = np.array([
        [r[0, 0] - r[1, 1] - r[2, 2], 0, 0, 0],
        [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], 0, 0],
        [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], 0],
        [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]],
    ])  # fmt: skip
    return np.linalg.eigh(k / 3.0)[1][:, -1]


# JavaScript that moves the emulated devices like a user who walks in a circle around x = 0, z = 0 and swings the hands.
# The stride length fits the walking speed.
WALK = """
(() => { const height = 1.62, speed = 0.9, radius = 1.1, begun = performance.now();
  const turned = (yaw) => [0, Math.sin(yaw / 2), 0, Math.cos(yaw / 2)];
  const step = () => { const t = (performance.now() - begun) / 1000, ramp = Math.min(1, Math.max(0, (t - 2) / 2));
    const way = speed * (Math.max(0, t - 3) + ramp * 0.5), a = way / radius, phase = Math.PI * way / 0.65;
    const at = (x, y, z) => [radius * (Math.cos(a) - 1) + x * Math.cos(a) + z * Math.sin(a), y,
                             -radius * Math.sin(a) - x * Math.sin(a) + z * Math.cos(a)];
    const bob = 0.018 * ramp * Math.cos(2 * phase), swing = 0.22 * ramp * Math.sin(phase);
    __place([at(0.012 * ramp * Math.sin(phase), height + bob, 0), turned(a)],
            [at(-0.27, 0.86, -0.12 - swing), turned(a)], [at(0.27, 0.86, -0.12 + swing), turned(a)]); };
  setInterval(step, 8); step(); })()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="time that the user walks (default: 20)")
    parser.add_argument("--pictures", type=Path, help="folder for headset-eyes.png and headset-page.png")
    args = parser.parse_args()
    if why_not() and CHROMIUM is not None:
        sys.path.insert(0, str(FOLDER))
        import build

        build.install()
    if why_not():
        print(f"not possible here: {why_not()}", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(TOP))
    from mm_ros.base.own_python import module_command
    from mm_ros.web.access import TOKEN_VARIABLE, address, new_token

    port, token = free_port(), new_token()
    os.environ.setdefault("ROS_DOMAIN_ID", str(20 + os.getpid() % 80))
    words = module_command("mm_ros", "up", "--trackers", "webxr", "-p", f"tracker_bridge.headset_port={port}")
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True, cwd=TOP)
    graph = subprocess.Popen(words, env={**os.environ, TOKEN_VARIABLE: token}, cwd=TOP, start_new_session=True)
    try:
        with sync_playwright() as p:
            browser = Browser(p)
            try:
                walk(browser, address("localhost", port, token), args)
            finally:
                browser.close()
    finally:
        graph.send_signal(signal.SIGINT)
        try:
            graph.wait(20)
        except subprocess.TimeoutExpired:
            graph.kill()
    return 0


def walk(browser: Browser, url: str, args: argparse.Namespace) -> None:
    import urllib.request

    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=2)
            break
        except OSError:
            time.sleep(0.2)
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
        pictures(browser, url, args.pictures)
        return
    headset = EmulatedHeadset(browser, url)
    headset.enter()
    headset.evaluate(WALK)
    headset.until("Boolean(mmRosPage.pose?.sequence)", 180.0, "the avatar's pose")
    headset.page.wait_for_timeout(args.seconds * 1000)
    print(json.dumps(headset.evaluate("({status: mmRosPage.status, back_ms: mmRosPage.backMs})"), indent=1))
    headset.close()


# JavaScript that moves the emulated headset and controllers of a standing user. The user looks slightly downward and
# raises both hands in front of the body.
STAND = """
(() => { let t = 0; const x = Math.sin(-0.12), w = Math.cos(-0.12);
  setInterval(() => { t += 0.016; const e = 0.002 * Math.sin(3 * t);
    __place([[0, 1.66 + e, 0], [x, 0, 0, w]], [[-0.26, 1.28 + e, -0.42], [0.34, 0.1, 0.3, 0.88]],
            [[0.34, 1.5 + e, -0.4], [0.42, -0.1, -0.3, 0.85]]); }, 16); })()
"""


def pictures(browser: Browser, url: str, folder: Path) -> None:
    """Pictures of a user who stands before the mirror: both eyes, and the page from outside."""
    headset = EmulatedHeadset(browser, url, size=(1120, 560))
    headset.enter(head=(0.0, 1.66, 0.0))
    headset.evaluate(STAND)
    tracked = "Object.values(mmRosPage.status?.tracking ?? {}).filter((s) => s === 'tracked').length >= 3"
    headset.until(f"mmRosPage.avatar.ready && mmRosPage.status.calibration.calibrated && {tracked}", 180.0)
    headset.page.wait_for_timeout(3000)
    (folder / "headset-eyes.png").write_bytes(headset.picture())
    watching = browser.new_page(viewport={"width": 1120, "height": 630})
    watching.goto(url)
    watching.evaluate(DRAW_ON_REQUEST)
    watching.wait_for_timeout(4000)
    watching.evaluate("window.__picture = ''; window.__draw = true")
    while not watching.evaluate("window.__picture"):
        watching.wait_for_timeout(100)
    watching.wait_for_timeout(1000)
    watching.screenshot(path=str(folder / "headset-page.png"))
    browser.close_page(watching)
    headset.close()


if __name__ == "__main__":
    sys.exit(main())
