"""The page with the real graph in a headless Chromium: actions of the user reach the nodes."""

import math
import os
import re
import subprocess
import sys
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")

import rclpy
from chromium import CHROMIUM, FEW_FRAMES, SIZE, Browser, free_port
from graph_harness import Client
from page_pictures import pixels_of
from processes import end, warm
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python

from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import HEAD, PARENTS, default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.ros.conversions import avatar_pose_to_ros, landmarks_to_ros, skeleton_to_ros
from mm_ros.show.page.scene import PALETTE, SEEN
from mm_ros.tracking.landmark_simulation import body_landmarks
from mm_ros.web.access import TOKEN_VARIABLE, address, new_token

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt install chromium"),
]

AVATAR, OTHER = "seen", "other"
PATIENCE_S = 180.0


TEST_S = 400.0
SMALL = {"width": 200, "height": 120}
# Messages close themselves after some seconds, and a page on a busy machine may be looked at less often.
KEEP_TEXTS = """
window.shown = [];
new MutationObserver((changes) => {
  for (const c of changes) for (const n of c.addedNodes) if (n.textContent) window.shown.push(n.textContent);
}).observe(document, {childList: true, subtree: true});
"""


class Page:
    """A graph, its viewer, and a browser with the page."""

    def __init__(self, folder, browser):
        port, token, self._browser = free_port(), new_token(), browser
        self.url = address("127.0.0.1", port, token)
        self._folder, self._log = folder, (folder / "log").open("ab")
        self.said = (folder / "log").read_text
        words = [["up", "--avatar", AVATAR], ["view", "--port", str(port), "--show", f"{AVATAR},{OTHER}"]]
        self._running = []
        self.client = Client(AVATAR, ("pose", "trackers"))
        self.outside: list[str] = []
        try:
            for w in words:
                self._running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "mm_ros", *w], stdout=self._log, stderr=self._log,
                        env={**os.environ, TOKEN_VARIABLE: token},
                    )
                )  # fmt: skip
            assert self.client.spin_until(lambda: self.client.received["pose"], 150.0), "no pose came"
            self.page = self.open()
        except BaseException:
            self.close()
            raise

    def open(self):
        page = self._browser.new_page()
        page.on("request", lambda r: self.outside.append(r.url) if "127.0.0.1" not in r.url else None)
        page.add_init_script(FEW_FRAMES + KEEP_TEXTS)
        page.goto(self.url)
        page.wait_for_selector("canvas:visible")
        page.get_by_text(re.compile("latency p99")).wait_for()
        return page

    def was_shown(self, pattern):
        """Wait for a message of the page, which may have closed itself since it was shown."""
        self.until(lambda: any(re.search(pattern, t) for t in self.page.evaluate("window.shown")), pattern)

    def open_settings(self, page):
        page.get_by_role("tab", name="Settings").click(force=True)
        page.get_by_text("motion_matcher", exact=True).click(force=True)
        page.get_by_text("responsiveness", exact=True).wait_for()

    def until(self, done, what, meanwhile=lambda: None):
        end = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end, f"{what}: not within {PATIENCE_S:g} s; {self.evidence()}"
            meanwhile()
            self.client.spin(0.1)
            self.page.wait_for_timeout(50)

    def evidence(self):
        picture = self._folder / "failed.png"
        self.page.screenshot(path=picture)
        return f"the page: {picture}; the processes: {self.said()[-800:]}"

    def parameter(self, name):
        request = GetParameters.Request(names=[name])
        answer = self.client.call(GetParameters, f"/{AVATAR}/motion_matcher/get_parameters", request)
        return parameter_value_to_python(answer.values[0])

    def set_elsewhere(self, name, value):
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        answer = self.client.call(SetParameters, f"/{AVATAR}/motion_matcher/set_parameters", request)
        assert answer.results[0].successful

    def patience(self):
        return self._browser.within(TEST_S)

    def close_tab(self, page):
        """A browser that does not close the tab in time is killed; then the other tab is opened again."""
        self._browser.close_page(page)
        if page is not self.page and self.page.is_closed():
            self.page = self.open()

    def newest_trackers_s(self):
        return self.client.arrived["trackers"][-1] if self.client.arrived["trackers"] else 0.0

    def close(self):
        end(*reversed(self._running))
        self.client.close()
        self._log.close()
        return [process.returncode for process in self._running]


def beside(page, label, selector):
    """Return the control in the row of this label, once the page does not move."""
    end = time.monotonic() + PATIENCE_S
    while True:
        at = page.get_by_text(label, exact=True).bounding_box()
        middle = at["y"] + at["height"] / 2
        rows = []
        for found in page.locator(selector).all():
            box = found.bounding_box() if found.is_visible() else None
            if box is not None:
                rows.append((abs(box["y"] + box["height"] / 2 - middle), found))
        away, control = min(rows, key=lambda row: row[0], default=(math.inf, None))
        if away < 0.5 * at["height"] and page.get_by_text(label, exact=True).bounding_box() == at:
            return control
        assert time.monotonic() < end, f"no control beside {label!r}: the nearest is {away:.0f} pixels away"
        page.wait_for_timeout(50)


def number(page, label):
    return float(beside(page, label, "input[inputmode]").input_value())


@pytest.fixture(scope="module")
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


@pytest.fixture(scope="module")
def seen(ros, tmp_path_factory):
    warm()
    with sync.sync_playwright() as p:
        browser = Browser(p)
        with browser.within(TEST_S):
            page = Page(tmp_path_factory.mktemp("page"), browser)
        try:
            yield page
            browser.close()
        finally:
            codes = page.close()
    assert codes == [0, 0]
    assert page.outside == []


@pytest.fixture(autouse=True)
def patience(seen):
    with seen.patience():
        yield


def test_the_page_is_at_the_printed_address_only(seen):
    seen.until(lambda: f"the avatar is at {seen.url}" in seen.said(), "the address is printed")
    with pytest.raises(HTTPError, match="403"):
        urlopen(seen.url.rpartition("/")[0].rpartition("/")[0], timeout=PATIENCE_S)


def test_the_scene_is_opaque(seen):
    opacity = "[...document.querySelectorAll('canvas')].map((c) => Number(getComputedStyle(c).opacity))"
    seen.until(lambda: min(seen.page.evaluate(opacity)) == 1.0, "the scene is opaque once it is drawn")


def test_sliders_show_what_the_nodes_have_and_move_it(seen):
    seen.set_elsewhere("quality", 2.5)  # before the panel has read the settings
    seen.open_settings(seen.page)
    seen.until(lambda: number(seen.page, "quality") == 2.5, "the slider shows the node's value")
    before = seen.parameter("responsiveness")
    beside(seen.page, "responsiveness", "[role=slider]").press("ArrowRight")
    seen.until(lambda: seen.parameter("responsiveness") > before, "the slider moves the node's parameter")
    seen.until(
        lambda: number(seen.page, "responsiveness") == pytest.approx(seen.parameter("responsiveness")),
        "the number beside the slider is that of the node",
    )


def test_a_value_set_by_somebody_else_moves_the_slider(seen):
    seen.set_elsewhere("jump_cost", 1.25)
    seen.until(lambda: number(seen.page, "jump cost") == 1.25, "the slider follows /parameter_events")


def test_a_refused_value_snaps_back_and_says_why(seen):
    text = beside(seen.page, "weights", "input")
    text.fill("nonsense=1")
    text.press("Enter")
    seen.was_shown("weights was refused: .*'nonsense' is not in the layout")
    seen.until(
        lambda: beside(seen.page, "weights", "input").input_value() == "", "it snaps back"
    )
    assert seen.parameter("weights") == ""


def test_the_buttons_call_the_services(seen):
    page = seen.page
    page.get_by_role("tab", name="View").click(force=True)
    page.get_by_role("button", name="pause").click(force=True)
    seen.until(lambda: time.monotonic() - seen.newest_trackers_s() > 1.0, "the trackers pause")
    count = len(seen.client.received["trackers"])
    page.get_by_role("button", name="resume").click(force=True)
    seen.until(lambda: len(seen.client.received["trackers"]) > count, "the trackers go on")
    run = seen.client.received["pose"][-1].segment
    page.get_by_role("button", name="reset").click(force=True)
    seen.was_shown("motion_matcher was reset")
    seen.until(lambda: seen.client.received["pose"][-1].segment != run, "the matcher is reset")
    page.get_by_role("button", name="calibrate").click(force=True)
    seen.was_shown("this source provides the calibration")


def test_a_second_browser_sees_the_same_and_has_a_camera_of_its_own(seen):
    seen.page.set_viewport_size(SMALL)  # drawing it at full size would leave the new page waiting for a minute
    late = seen.open()
    seen.page.set_viewport_size(SIZE)
    seen.open_settings(late)
    seen.until(lambda: number(late, "quality") == 2.5, "the late page shows the same value")
    late.get_by_role("tab", name="View").click(force=True)
    beside(late, "camera", "input").click(force=True)
    late.get_by_role("option", name="orbit").click(force=True)
    seen.until(lambda: beside(late, "camera", "input").input_value() == "orbit", "the late page orbits")
    assert beside(seen.page, "camera", "input").input_value() == "follow"
    seen.close_tab(late)


class Stranger:
    """Another avatar, 15 m away and with landmarks, without a graph."""

    def __init__(self):
        self.client = Client(OTHER, ())
        self.pose, self.landmarks, self._shape = (self.client.publisher(t) for t in ("pose", "landmarks", "skeleton"))
        self.wear(default_skeleton())

    def wear(self, skeleton):
        self.skeleton = skeleton
        self._shape.publish(skeleton_to_ros(skeleton, self.client.now_ns()))

    def speak(self):
        now_ns = self.client.now_ns()
        stands = rest_pose(self.skeleton, now_ns)
        stands.root[:2] = (15.0, 0.0)  # where the first avatar, which walks around, cannot hide it
        self.pose.publish(avatar_pose_to_ros(stands))
        joints = stands.positions.astype(float)[None]
        joints[0, 0] = 0.0
        p, q = rot.forward_kinematics(PARENTS, joints, stands.rotations.astype(float)[None])
        points = body_landmarks(p, q[:, HEAD])[0] - p[0, 1]
        self.landmarks.publish(landmarks_to_ros(Landmarks(now_ns, points, np.ones(33, np.float32))))


def colored(page, near):
    """Return the number of pixels of about this hue in the scene."""
    return int(pixels_of(page, near).sum())


def test_another_avatar_joins_with_its_camera_is_watched_and_leaves(seen):
    page, other = seen.page, Stranger()
    seen.until(lambda: shown(page, AVATAR), "the list of avatars is there", other.speak)
    shown(page, AVATAR)[0].click(force=True)
    page.get_by_role("option", name=OTHER).click(force=True)
    status = page.get_by_text(re.compile(rf"^{OTHER} · \d+ Hz"))
    seen.until(status.is_visible, "the status is about the other one", other.speak)
    seen.until(lambda: colored(page, PALETTE[1]) > 300, "the other one is there in a colour of its own", other.speak)
    seen.until(lambda: colored(page, SEEN) > 50, "what the camera sees is drawn", other.speak)
    before = colored(page, PALETTE[1])
    other.wear(default_skeleton().scaled(0.6))
    seen.until(lambda: 100 < colored(page, PALETTE[1]) < 0.7 * before, "it is drawn smaller", other.speak)
    other.client.close()
    status = page.get_by_text(re.compile(rf"^{AVATAR} · \d+ Hz"))
    seen.until(status.is_visible, "it leaves the page, which is about the first one again")


def shown(page, value):
    """Return the visible input boxes with this value."""
    return [e for e in page.locator("input:not([type=checkbox])").all() if e.is_visible() and e.input_value() == value]


def test_the_server_outlives_its_tabs(seen):
    seen.close_tab(seen.page)
    again = seen.page = seen.open()
    again.get_by_role("button", name="calibrate").wait_for()
