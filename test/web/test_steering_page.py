"""The page in a real Chromium steers a character by keys, gamepad, touch and clicks: topics and pixels."""

import base64
import io
import math

import numpy as np
import pytest

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")
pytest.importorskip("websockets", reason="websockets is not installed (extra [webxr])")
pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from chromium import CHROMIUM, Browser, free_port
from emulated_headset import DRAW_ON_REQUEST
from PIL import Image
from steered_world import SteeredWorld

from mm_ros.matching.root_control import RootControlSettings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]
GAMEPAD = """window.__pad = null; navigator.getGamepads = () => [window.__pad];
window.__plug = (axes, pressed = []) => { window.__pad = {connected: true, mapping: 'standard', axes,
  buttons: Array.from({length: 17}, (_, k) => ({pressed: pressed.includes(k)}))}; };"""
HIDE = """yes => { Object.defineProperty(document, 'hidden', {value: yes, configurable: true});
document.dispatchEvent(new Event('visibilitychange')); }"""


@pytest.fixture(scope="module", autouse=True)
def own_folders(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MM_ROS_HEADSET", str(tmp_path_factory.mktemp("headset")))
        yield


@pytest.fixture(scope="module")
def browser():
    with sync.sync_playwright() as p:
        made = Browser(p)
        yield made
        made.close()


class Tab:
    def __init__(self, browser, world):
        self.browser, self.world, self.errors = browser, world, []
        self.page = browser.new_page(viewport={"width": 320, "height": 200})
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.add_init_script(GAMEPAD)
        self.page.goto(world.url)
        self.evaluate(DRAW_ON_REQUEST)
        self.until("mmRosPage.avatar.ready && mmRosPage.placedBehind", "the avatar is shown from behind")

    def evaluate(self, text, argument=None):
        return self.page.evaluate(text, argument)

    def until(self, condition, what):
        return self.world.until(lambda: self.page.wait_for_timeout(20) or self.page.evaluate(condition), what)

    def steering(self):
        return self.evaluate("mmRosPage.status.steering")

    def pixels(self):
        self.evaluate("window.__draw = true; window.__picture = ''")
        url = self.until("window.__picture", "a frame is drawn")
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"), np.int16)

    def close(self):
        self.browser.close_page(self.page)
        assert self.errors == []


@pytest.fixture(scope="module")
def steered(own_folders):
    made = SteeredWorld(free_port(), "joystick_control")
    yield made
    made.close()


@pytest.fixture
def tab(browser, steered):
    with browser.within(420.0):
        made = Tab(browser, steered)
        yield made
        made.close()
        steered.until(steered.stands, "the character stands")


def blue(picture):
    """Share of the pixels that have the avatar's colour."""
    return float((picture[..., 2] - picture[..., 0] > 50).mean())


def moving(world, heading, speed):
    """Whether the character moves and faces in this direction at this speed; its root is near the desired one."""

    def check():
        x, y, yaw, now = world.desired[-1]
        right_way = abs(math.remainder(yaw - heading, 2 * math.pi)) < math.radians(5)
        near = np.linalg.norm(np.subtract(world.roots[-1][:2], (x, y))) < 0.5
        return right_way and abs(now - speed) < 0.1 * speed and near

    return check


def test_keys_steer_relative_to_the_camera_and_the_page_shows_it(steered, tab):
    tab.evaluate("mmRosPage.orbit.behind(0)")
    before = tab.pixels()
    assert 0.01 < blue(before) < 0.5
    tab.page.keyboard.down("KeyW")
    steered.until(moving(steered, 0.0, 1.3), "W walks ahead")
    tab.until("mmRosPage.status.steering.own", "the page shows that it steers")
    tab.page.keyboard.down("ShiftLeft")
    steered.until(moving(steered, 0.0, 2.5), "Shift jogs")
    tab.page.keyboard.up("ShiftLeft")
    tab.page.keyboard.down("KeyQ")
    turned = tab.until("mmRosPage.orbit.worldYaw > 0.5 && mmRosPage.orbit.worldYaw", "Q turns the view to the left")
    tab.page.keyboard.up("KeyQ")
    turned = tab.evaluate("mmRosPage.orbit.worldYaw")
    steered.until(moving(steered, turned, 1.3), "ahead is where the camera looks")
    tab.page.keyboard.up("KeyW")
    tab.page.keyboard.down("ArrowRight")
    steered.until(moving(steered, turned - math.pi / 2, 1.3), "the right arrow walks to the right")
    after = tab.pixels()
    assert 0.01 < blue(after) < 0.5 and np.abs(after - before).mean() > 3
    tab.page.keyboard.up("ArrowRight")
    steered.until(steered.stands, "released keys stop it")
    assert tab.until("mmRosPage.steering.back.length", "poses answer the keys") > 0


def test_a_gamepad_steers_until_it_is_pulled(steered, tab):
    tab.evaluate("mmRosPage.orbit.behind(0)")
    tab.evaluate("__plug([-1, 0.1, 0, 0])")
    steered.until(moving(steered, math.pi / 2, 1.3), "the left stick walks to the left")
    tab.evaluate("__plug([0, -1, 0, 0], [5])")
    steered.until(moving(steered, 0.0, 2.5), "the right shoulder button jogs")
    tab.evaluate("__pad = null")
    steered.until(steered.stands, "without the gamepad it stops")
    tab.evaluate("__plug([0.1, -0.1, 1, 0])")
    tab.until("mmRosPage.orbit.worldYaw < -0.3", "the right stick turns the view")
    assert steered.stands()


def test_a_hidden_tab_and_a_broken_connection_stop_it(steered, tab):
    tab.page.keyboard.down("KeyW")
    steered.until(lambda: steered.speed > 1.2, "W walks")
    tab.evaluate(HIDE, True)
    steered.until(steered.stands, "a hidden page stops it")
    tab.evaluate(HIDE, False)
    tab.page.keyboard.up("KeyW")
    tab.page.keyboard.down("KeyW")
    steered.until(lambda: steered.speed > 1.2, "W walks again")
    tab.evaluate("mmRosPage.link.socket.close()")
    steered.until(steered.stands, "a broken connection stops it")
    tab.until("mmRosPage.link.open && mmRosPage.status.steering", "the page connects again")
    assert not tab.evaluate("mmRosPage.steering.keys.size")
    tab.page.keyboard.up("KeyW")


def test_the_page_that_began_last_steers_and_the_other_shows_it(browser, steered, tab):
    other = Tab(browser, steered)
    try:
        for each in (tab, other):
            each.evaluate("mmRosPage.orbit.behind(0)")
        tab.page.keyboard.down("KeyW")
        steered.until(moving(steered, 0.0, 1.3), "the first page steers")
        other.page.keyboard.down("KeyS")
        steered.until(moving(steered, math.pi, 1.3), "the second page takes over although W is held")
        tab.until("mmRosPage.status.steering.other", "the first page shows that another one steers")
        tab.until("document.getElementById('steers').innerText.includes('Another page steers')", "the page says so")
        other.page.keyboard.up("KeyS")
        steered.until(steered.stands, "the held key of the first page moves nothing")
        tab.page.keyboard.down("KeyA")
        steered.until(moving(steered, math.pi / 4, 1.3), "a new key takes the control back")
        for key in ("KeyW", "KeyA"):
            tab.page.keyboard.up(key)
    finally:
        other.close()


def test_the_touch_stick_steers(steered, tab):
    tab.evaluate("mmRosPage.orbit.behind(0); window.matchMedia = () => ({matches: true})")  # a touch screen
    tab.until("!document.getElementById('stick').hidden", "the stick is shown")
    box = tab.evaluate("(({x, y, width}) => [x + width / 2, y + width / 2])(stick.getBoundingClientRect())")
    tab.page.mouse.move(*box)
    tab.page.mouse.down()
    tab.page.mouse.move(box[0], box[1] - 80)
    steered.until(moving(steered, 0.0, 1.3), "the stick walks ahead")
    tab.page.mouse.up()
    steered.until(steered.stands, "a released stick stops it")


def test_the_engine_is_changed_on_the_page_while_the_character_walks(steered, tab):
    matcher = steered.nodes["motion_matcher"]
    tab.until("document.getElementById('engine').options.length > 2", "the page lists the engines")
    tab.evaluate("document.getElementById('panel').open = true")
    tab.page.keyboard.down("KeyW")
    for engine in ("learned", "state_machine", "search"):
        tab.page.select_option("#engine", engine)
        steered.until(lambda engine=engine: matcher._stage.settings.engine == engine, f"the engine is {engine}")
        count = len(steered.roots)
        steered.until(lambda count=count: len(steered.roots) > count + 30, "it goes on")
        steps = np.linalg.norm(np.diff(np.array(steered.roots[count : count + 30])[:, :2], axis=0), axis=1)
        periods_s = np.diff(steered.stamps_s[count : count + len(steps) + 1])  # a busy machine leaves frames out
        assert np.isfinite(steps).all() and (steps < 0.1 + 4.0 * periods_s).all(), np.c_[steps, periods_s]
    tab.page.keyboard.up("KeyW")



def distance(way, point):
    """Distance [m] of a point from a way, whose places are far from each other where a busy machine left frames out."""
    step = np.diff(way, axis=0)
    share = ((point - way[:-1]) * step).sum(1) / np.maximum((step**2).sum(1), 1e-12)
    return np.linalg.norm(way[:-1] + np.clip(share, 0.0, 1.0)[:, None] * step - point, axis=1).min()


@pytest.fixture
def walking(own_folders):
    made = SteeredWorld(free_port(), "path_control")
    yield made
    made.close()


def test_clicks_on_the_floor_are_walked_to_and_the_path_is_drawn(browser, walking):
    with browser.within(420.0):
        tab = Tab(browser, walking)
        before = tab.pixels()
        tab.page.mouse.click(200, 120)
        tab.until("mmRosPage.status.path.points.length > 2", "the page shows the path")
        first = np.array(tab.evaluate("mmRosPage.status.path.keys"))[-1]
        tab.page.keyboard.down("Shift")
        tab.page.mouse.click(110, 130)
        tab.until("mmRosPage.status.path.keys.length == 3", "a second point is added")
        second = np.array(tab.evaluate("mmRosPage.status.path.keys"))[-1]
        assert np.abs(tab.pixels() - before).max() > 100  # yellow on wood
        walking.until(lambda: np.linalg.norm(np.subtract(walking.roots[-1][:2], second)) < 0.2, "it arrives")
        # The avatar may be this far from the point that leads it.
        assert distance(np.array(walking.roots)[:, :2], first) < RootControlSettings().steered_position_accuracy
        tab.until("mmRosPage.status.path.progress == 1", "the page shows the end")
        tab.evaluate("mmRosPage.link.say({do: 'goal', x: 1e30, y: 0}); mmRosPage.link.say({do: 'goal', y: 'a'})")
        tab.until("document.getElementById('note').className == 'bad'", "an absurd point is refused in words")
        walking.until(walking.stands, "it stands")
        tab.close()
