"""The headset page in a real Chromium with an emulated headset: page → socket → gate → `trackers`, and poses back."""

import re
import socket
import urllib.request
from io import BytesIO

import numpy as np
import pytest

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")
pytest.importorskip("websockets", reason="websockets is not installed (extra [webxr])")
rclpy = pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from chromium import Browser, free_port
from emulated_headset import EmulatedHeadset, why_not
from headset_world import World
from PIL import Image

from mm_ros.body.timeline import is_identity
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, TRACKED, Calibration
from mm_ros.maths import rotations as rot
from mm_ros.ros.bench import webxr as bench
from mm_ros.tracking.room import inverse
from mm_ros.tracking.sources import axes
from mm_ros.web.access import INSPECTOR_VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]
READY = """() => { __xr.updateVisibilityState('visible'); window.__lost = false;
  delete mmRosPage._frame;
  __xr.primaryInputMode = 'controller';
  for (const side of ['left', 'right']) { __xr.controllers[side].connected = true; __tracked(side, true); }
  const q = [0, 0, 0, 1]; __place([[0, 1.6, 0], q], [[-0.3, 1.2, -0.3], q], [[0.3, 1.2, -0.3], q]); }"""
LEVEL = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture(scope="module", autouse=True)
def own_folders(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MM_ROS_HEADSET", str(tmp_path_factory.mktemp("headset")))
        patch.setenv("MM_ROS_USERS", str(tmp_path_factory.mktemp("users")))
        yield


@pytest.fixture(scope="module")
def browser():
    with sync.sync_playwright() as p:
        made = Browser(p)
        yield made
        made.close()


@pytest.fixture(scope="module")
def world(own_folders):
    # The emulated headset moves only when a test moves it, and a restart of the server may last longer than 2 s.
    made = World(free_port(), frozen_s=0.0, new_epoch_s=60.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def one_headset(browser, world):
    made = EmulatedHeadset(browser, world.url)
    made.enter()
    yield made
    made.close()


@pytest.fixture
def headset(browser, world, one_headset):
    """The headset in VR with all devices tracked; one page for all tests."""
    with browser.within(420.0):
        one_headset.errors.clear()
        one_headset.evaluate(READY)
        world.until(
            lambda: world.frames and (world.frames[-1].state[:3] == TRACKED).all(), "headset and hands are tracked"
        )
        yield one_headset


def in_ros(position, quaternion):
    return np.array(axes.position(*position)), rot.normalize(np.array(axes.rotation(*quaternion)))


def random_pose(rng, around, spread):
    q = rng.normal(size=4) * (0.4, 0.4, 0.4, 0.0) + (0.0, 0.0, 0.0, 1.0)
    return np.array(around) + rng.uniform(-spread, spread, 3), q / np.linalg.norm(q)


def test_exact_poses_arrive_in_trackers_and_the_avatar_comes_back(world, headset):
    rng = np.random.default_rng(3)
    for _ in range(6):
        placed = [
            random_pose(rng, around, 0.1) for around in ((0, 1.6, 0), (-0.3, 1.2, -0.3), (0.3, 1.2, -0.3))
        ]
        headset.place(*placed)

        def arrived(placed=placed):
            frame = world.frames[-1]
            return (frame.state[:3] == TRACKED).all() and all(
                np.abs(frame.positions[r] - in_ros(*placed[r])[0]).max() <= 1e-6
                and abs(frame.rotations[r] @ in_ros(*placed[r])[1]) > 1.0 - 1e-7
                for r in range(3)
            )

        world.until(arrived, f"the poses {placed} arrive")
    headset.until("mmRosPage.pose && mmRosPage.pose.sequence > 0 && mmRosPage.avatar.ready", what="the avatar is there")
    joints = np.array(headset.evaluate("Array.from(mmRosPage.pose.joints)")).reshape(-1, 7)
    np.testing.assert_allclose(joints[:, :3], world.skeleton.rest_positions(), atol=1e-6)
    assert headset.errors == []


def test_stamps_are_in_order_and_never_in_the_future(world, headset):
    before = len(world.frames)
    world.until(lambda: len(world.frames) > before + 100, "100 frames")
    frames = list(world.frames[before:])
    now_ns = world.node.get_clock().now().nanoseconds
    stamps = np.array([f.stamp_ns for f in frames])
    assert (np.diff(stamps) > 0).all()
    assert stamps[-1] < now_ns
    assert len({f.epoch for f in frames}) == 1


def test_states_of_the_devices(world, headset):
    def state_is(role, state):
        world.until(lambda: world.frames[-1].state[role] == state, f"role {role} is {state}")

    state_is(LEFT_HAND_ROLE, TRACKED)
    headset.evaluate("__tracked('left', false)")  # an emulated controller drifts: the gate refuses it
    state_is(LEFT_HAND_ROLE, LOST)
    headset.evaluate("__xr.controllers.right.connected = false")
    state_is(RIGHT_HAND_ROLE, LOST)
    headset.evaluate("__tracked('left', true); __xr.controllers.right.connected = true; __tracked('right', true)")
    state_is(LEFT_HAND_ROLE, TRACKED)
    state_is(RIGHT_HAND_ROLE, TRACKED)
    headset.evaluate("window.__lost = true")
    state_is(HEAD_ROLE, LOST)
    headset.evaluate("window.__lost = false")
    state_is(HEAD_ROLE, TRACKED)


def test_grip_buttons_are_published_and_a_lost_controller_is_reported(world, headset):
    press = "([side, share]) => __xr.controllers[side].updateButtonValue('squeeze', share)"
    for side, share, held in (("right", 1, [0, 1]), ("left", 1, [1, 1]), ("right", 0, [1, 0])):
        headset.evaluate(press, [side, share])
        world.until(lambda held=held: world.grips[-1:] == [held], f"the grips are {held}")
    headset.evaluate("__xr.controllers.left.connected = false")
    world.until(lambda: world.grips[-1:] == [[-1, 0]], "the controller is reported as lost")
    headset.evaluate("__xr.controllers.left.connected = true; __tracked('left', true)")
    world.until(lambda: world.grips[-1:] == [[1, 0]], "the grip is held again")
    headset.evaluate(press, ["left", 0])
    world.until(lambda: world.grips[-1:] == [[0, 0]], "all grips are released")


def test_bare_hands_replace_controllers(world, headset):
    headset.place(((0, 1.6, 0), LEVEL), ((-0.3, 1.2, -0.3), LEVEL), ((0.3, 1.2, -0.3), LEVEL))
    headset.evaluate("__put(__xr.hands.left, [-0.25, 1.1, -0.3], [0, 0, 0, 1])")
    headset.evaluate("""__xr.primaryInputMode = 'hand';
      for (const s of ['left', 'right']) { __xr.hands[s].connected = true; __tracked(s, true); }""")
    world.until(lambda: world.bridge._source.hands == (True, True), "the page reports bare hands")
    world.until(lambda: world.frames[-1].state[LEFT_HAND_ROLE] == TRACKED, "the left hand is tracked")
    world.until(lambda: world.grips[-1:] == [[-1, -1]], "bare hands have no grips")
    headset.evaluate("__xr.primaryInputMode = 'controller'")
    world.until(lambda: world.bridge._source.hands == (False, False), "the controllers are back")


BODY = """() => { const joints = new Map([['head', mmRosPage.tracking.session.inputSources[0].gripSpace],
    ['left-hand-wrist', mmRosPage.tracking.session.inputSources[1].gripSpace], ['hips', null]]);
  Object.defineProperty(XRFrame.prototype, 'body', {configurable: true, get: () => joints});
  const get = XRFrame.prototype.getPose;
  XRFrame.prototype.getPose = function (s, base) { return s && get.call(this, s, base); };
  mmRosPage.tracking.wantsBody = true; }"""


def test_the_headsets_own_body_is_published_only_on_request(world, headset):
    """IWER has no body tracking: the joints are those of the controllers, and one that is not tracked."""
    assert world.bodies == []
    placed = [(side, 1.2, -0.3) for side in (-0.3, 0.3)]
    headset.place(((0, 1.6, 0), LEVEL), *((p, LEVEL) for p in placed))
    hands = [in_ros(p, LEVEL)[0] for p in placed]

    def arrived():
        found = {t.child_frame_id: t.transform.translation for t in world.bodies[-1].transforms} if world.bodies else {}
        near = [min(np.abs(np.array([v.x, v.y, v.z]) - hand).max() for hand in hands) < 1e-5 for v in found.values()]
        return found.keys() == {"head", "left-hand-wrist"} and all(near)

    headset.evaluate(BODY)
    try:
        world.until(arrived, "the joints arrive")
    finally:
        headset.evaluate("mmRosPage.tracking.wantsBody = false")


RECENTRED = """([p, q]) => { const e = new XRReferenceSpaceEvent('reset', {
    referenceSpace: mmRosPage.tracking.space, transform: p && new XRRigidTransform(
        {x: p[0], y: p[1], z: p[2]}, {x: q[0], y: q[1], z: q[2], w: q[3]})});
  mmRosPage.tracking.space.dispatchEvent(e); }"""


def test_recentring_with_a_transform_moves_the_state_and_without_one_resets_it(world, headset):
    first = world.newest().epoch
    half = np.array([0.0, np.sin(0.2), 0.0, np.cos(0.2)])
    headset.evaluate(RECENTRED, [[0.5, 0.0, 0.25], half.tolist()])
    moved = world.until(
        lambda: next((f for f in list(world.frames) if f.epoch > first), None), "the epoch of the re-centring"
    )
    origin, turn = in_ros((0.5, 0.0, 0.25), half)  # the new origin, in the old space
    np.testing.assert_allclose(rot.rotate(moved.new_from_old[3:], origin) + moved.new_from_old[:3], 0.0, atol=1e-6)
    np.testing.assert_allclose(np.abs(rot.multiply(moved.new_from_old[3:], turn)), [1, 0, 0, 0], atol=1e-6)
    headset.evaluate(RECENTRED, [None, None])
    reset = world.until(
        lambda: next((f for f in list(world.frames) if f.epoch > moved.epoch), None), "the epoch of the reset"
    )
    assert is_identity(reset.new_from_old)


def test_a_menu_and_a_hidden_page_are_reported(world, headset):
    headset.evaluate("__xr.updateVisibilityState('visible-blurred')")
    world.until(lambda: world.server.tracker.visibility == "visible-blurred", "the menu is reported")
    states = [LOST, TRACKED]  # a page that stands still for a moment loses the head, too
    world.until(lambda: list(world.frames[-1].state[[LEFT_HAND_ROLE, HEAD_ROLE]]) == states, "only the hands are lost")
    # A device stops the frames of a hidden page; IWER goes on.
    headset.evaluate("__xr.updateVisibilityState('hidden'); mmRosPage._frame = () => {}")
    world.until(lambda: "another page or a menu" in world.bridge._source.status(), "the status says why")


def test_leaving_and_entering_again_is_a_new_epoch(world, headset):
    first = world.newest().epoch
    headset.leave()
    world.until(lambda: world.server.tracker is None, "no headset is tracked")
    assert "Enter VR" in world.bridge._source.status()
    headset.enter()
    world.until(lambda: world.frames[-1].epoch > first, "the epoch of the second session")


def alpha(picture):
    return np.asarray(Image.open(BytesIO(picture)).convert("RGBA"))[..., 3]


def test_passthrough_tracks_the_user_and_leaves_the_own_room_visible(world, headset):
    headset.until("mmRosPage.pose && mmRosPage.avatar.ready && mmRosPage.placed")
    assert alpha(headset.picture()).min() == 255  # in VR, nothing of the own room is seen
    first = world.newest().epoch
    headset.leave()
    headset.enter("ar")
    try:
        assert headset.evaluate("mmRosPage.tracking.session.environmentBlendMode") == "alpha-blend"
        world.until(lambda: world.frames[-1].epoch > first, "the epoch of the session")
        assert world.server.tracker.mode == "immersive-ar"
        placed = (((0.1, 1.55, -0.2), LEVEL), ((-0.2, 1.1, -0.4), LEVEL), ((0.3, 1.3, -0.5), LEVEL))
        headset.place(*placed)
        truth = [in_ros(*pose)[0] for pose in placed]
        world.until(lambda: np.abs(world.frames[-1].positions[:3] - truth).max() <= 1e-6, "the poses arrive")
        seen = alpha(headset.picture())
        assert (seen == 0).mean() > 0.3 and (seen == 255).mean() > 0.02  # the room, and the mirror with the panel
    finally:
        headset.leave()
        headset.enter()


def test_the_session_survives_a_restart_of_the_server(browser, world, headset):
    first = len(world.frames)
    world.server.close()
    headset.until("mmRosPage.link.state === 'connecting'", what="the page notices")
    world.server.start()
    headset.until("mmRosPage.link.state === 'connected'", what="the page is connected again")
    world.until(lambda: len(world.frames) > first + 50, "frames of the same session")
    assert world.frames[-1].epoch == world.frames[first - 1].epoch


def test_a_second_headset_takes_over_and_the_first_is_told(browser, world, headset):
    first = world.newest().epoch
    other = EmulatedHeadset(browser, world.url)
    other.enter(head=(1.0, 1.5, 0.0))
    world.until(lambda: world.frames[-1].epoch > first, "the second headset is tracked")
    world.until(lambda: abs(world.frames[-1].positions[HEAD_ROLE, 1] + 1.0) < 1e-6, "its pose arrives")
    headset.until("mmRosPage.link.state === 'taken over'", what="the first page is told")
    second = world.frames[-1].epoch
    headset.evaluate("document.getElementById('again').click()")
    world.until(lambda: world.frames[-1].epoch > second, "the first takes back")
    other.until("mmRosPage.link.state === 'taken over'", what="the second page is told")
    other.close()


def test_a_slow_page_neither_freezes_nor_delays_others(browser, world, headset):
    world.until(lambda: len(world.server.pages) == 1, "the page of the test before is gone")
    slow = browser.new_page(viewport={"width": 200, "height": 120})
    slow.goto(world.url)
    world.until(lambda: len(world.server.pages) == 2, "both pages are connected")
    watcher = next(p for p in world.server.pages if p is not world.server.tracker)
    # Each frame waits for a dialog, because a busy page would take the processor from the other page, which a headset
    # has for itself.
    drawn = []
    slow.on("dialog", lambda dialog: drawn.append(dialog.accept()))
    slow.evaluate("mmRosPage.room.renderer.render = () => alert('a frame')")
    before = len(world.frames)
    queued = 0

    def watch():
        nonlocal queued
        queued = max(queued, watcher.socket.transport.get_write_buffer_size())
        if len(world.frames) > before + 20 * (len(drawn) + 1):
            headset.page.wait_for_timeout(20)  # receives a dialog and accepts it

    def both() -> bool:
        return len(world.frames) > before + 100 and len(drawn) > 1

    try:
        world.until(both, "100 frames of the other page, 2 of the slow page", meanwhile=watch)
        assert queued < 20_000  # a pose has 700 bytes, a status about 1000
        assert watcher.credit <= 2
        headset.until("mmRosPage.pose.sequence > 0", what="the other page gets poses")
    finally:
        browser.close_page(slow)


def test_the_policy_of_the_page_refuses_foreign_code(world, headset):
    made = "const s = document.createElement('script'); s.textContent = 'window.bad = 1'; document.body.append(s);"
    headset.evaluate(f"() => {{ {made} }}")
    assert headset.evaluate("window.bad === undefined")
    fetched = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
    assert headset.evaluate(fetched) == "refused"
    world.until(
        lambda: any("Content Security Policy" in e for e in headset.errors), "the console names the policy",
        meanwhile=lambda: headset.page.wait_for_timeout(20),
    )  # fmt: skip


IN_PAGE = """() => { const a = mmRosPage.avatar, p = mmRosPage.pose;
  const at = (j) => a.head.clone().fromArray(p.joints, 7 * j).applyMatrix4(a.room.matrix).toArray();
  return [p.sequence, at(0), at(4)]; }"""


def test_the_avatar_stands_at_the_user_in_a_calibrated_room(world, headset):
    """Poses are in `map`, the page draws in the headset's space: calibration turns and lifts one against the other."""
    room = world.bridge._stages.room
    room.calibrate(Calibration(forward_yaw=0.7, floor_height=0.1))
    try:
        matrix = inverse(room.map_from_source)
        world.newest()
        placed = "mmRosPage.avatar.ready && mmRosPage.avatar.room.matrix.elements[13] > 0.09"
        headset.until(placed, what="the transform")
        _, root, chest = headset.evaluate(IN_PAGE)
        rest = world.skeleton.rest_positions()
        for joint, seen in ((0, root), (4, chest)):
            expected = rot.rotate(matrix[3:], rest[joint]) + matrix[:3]
            np.testing.assert_allclose(axes.position(*seen), expected, atol=1e-5)
    finally:
        room.calibrate(Calibration())
        headset.until("mmRosPage.pose.sourceFromMap[2] < 0.01", what="the transform is undone")


def test_the_state_is_shown_in_words_and_in_a_picture(world, headset):
    shown = "mmRosPage.picture.head === 'good' && mmRosPage.picture.hands.join() === 'good,good'"
    headset.until(shown, what="head and hands are shown as tracked")
    words = headset.evaluate("document.getElementById('status').textContent")
    assert "this one, in VR" in words and "head and both hands" in words
    assert re.search(r"\d+ Hz.*, [0-9.]+ ms old, link [0-9.]+ ms", words)
    rate, age = headset.evaluate("mmRosPage.picture.linkText")
    assert rate.endswith(" Hz") and float(age.removesuffix(" ms")) >= 0.0
    drawn = """() => { const c = document.getElementById('picture');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return d.reduce((n, v, k) => n + (k % 4 === 3 && v > 0), 0) / (d.length / 4); }"""
    assert headset.evaluate(drawn) > 0.03
    headset.evaluate("__xr.controllers.right.connected = false")
    headset.until("mmRosPage.picture.hands[1] === 'bad'", what="the lost hand is shown")
    assert "right hand lost" in headset.evaluate("document.getElementById('status').textContent")


def test_before_vr_the_picture_shows_the_avatar_but_no_headset(browser, world, headset):
    headset.leave()
    try:
        headset.until("mmRosPage.picture.head === 'none' && mmRosPage.picture.link === 'none'")
        assert headset.evaluate("mmRosPage.picture.server") == "good"
        assert "no headset is in VR" in headset.evaluate("document.getElementById('status').textContent")
    finally:
        headset.enter()


BUTTON = """(name) => { const b = mmRosPage.panel.buttons.find((b) => b.text.startsWith(name));
  if (!b) return null;
  const { canvas, board } = mmRosPage.panel, { width, height } = board.geometry.parameters;
  const at = board.position.clone().set(((b.x + b.w / 2) / canvas.width - 0.5) * width,
                                        (0.5 - (b.y + b.h / 2) / canvas.height) * height, 0);
  return board.localToWorld(at).toArray(); }"""


def press(headset, name):
    """Point the right controller's ray at a button of the panel in VR, and pull the trigger."""
    target = np.array(headset.until(f"({BUTTON})({name!r})", what=f"the button {name}"))
    origin = np.array([0.25, 1.2, -0.2])
    x, y, z = (target - origin) / np.linalg.norm(target - origin)
    turn = np.array([y, -x, 0.0, 1.0 - z])  # shortest turn of the ray's -z to the direction: x, y, z, w
    turn /= np.linalg.norm(turn)
    headset.evaluate("([p, q]) => __put(__xr.controllers.right, p, q)", [origin.tolist(), turn.tolist()])
    over = f"mmRosPage.panel.buttons[mmRosPage.panel.over]?.text.startsWith({name!r})"
    headset.until(over, what=f"the ray is on the button {name}")
    headset.evaluate("__xr.controllers.right.updateButtonValue('trigger', 1)")
    frame = headset.evaluate("mmRosPage.tracking.sequence")
    headset.until(f"mmRosPage.tracking.sequence > {frame + 2}", what="a frame in which the trigger is pulled")
    headset.evaluate("__xr.controllers.right.updateButtonValue('trigger', 0)")


def test_the_panel_in_vr_calibrates_after_a_countdown_and_lists_engines(world, headset, monkeypatch):
    headset.until("mmRosPage.placed")
    measured = []
    calibrator = world.bridge._stages.calibrator
    monkeypatch.setattr(calibrator, "measure", lambda: measured.append(1) or (False, "stand still first"))
    press(headset, "Calibrate")
    headset.until("mmRosPage.panel.countUntil > 0", what="the countdown runs")
    assert not measured
    world.until(lambda: measured, "the graph measures", meanwhile=lambda: headset.page.wait_for_timeout(50))
    headset.until("mmRosPage.panel.message?.text === 'stand still first'", what="the panel shows the answer")
    headset.evaluate("""() => { window.__said = []; const say = mmRosPage.link.say.bind(mmRosPage.link);
        mmRosPage.link.say = (m) => { __said.push(m); say(m); }; }""")
    try:
        press(headset, "Engine")
        headset.until("__said.some((m) => m.do === 'engine' && m.value)", what="the choice is sent")
        chosen = headset.evaluate("__said.find((m) => m.do === 'engine' && m.value).value")
        assert chosen in ("search", "learned", "state_machine")
    finally:
        headset.evaluate("delete mmRosPage.link.say")


def test_the_page_for_watching_links_to_the_inspector(browser, world, monkeypatch):
    monkeypatch.setenv(INSPECTOR_VARIABLE, "http://127.0.0.1:8080/token")
    watching = browser.new_page(viewport={"width": 200, "height": 120})
    watching.goto(world.url)
    try:
        watching.locator("#inspector:not([hidden])").wait_for(state="attached")
        assert watching.get_attribute("#inspector", "href") == "http://127.0.0.1:8080/token"
    finally:
        browser.close_page(watching)


def blue(picture):
    """Number of pixels of the avatar's colour, and their mean column."""
    lit = picture / np.maximum(np.linalg.norm(picture, axis=2, keepdims=True), 1.0)
    seen = lit @ (np.array([0.36, 0.53, 0.77]) / 1.0) > 0.985 * np.linalg.norm([0.36, 0.53, 0.77])
    return int(seen.sum()), float(np.nonzero(seen)[1].mean()) if seen.any() else 0.0


def test_both_eyes_see_the_avatar_in_the_mirror(world, headset):
    headset.until("mmRosPage.pose && mmRosPage.avatar.ready && mmRosPage.placed")
    headset.evaluate("mmRosPage.avatar.room.visible = mmRosPage.panel.group.visible = false")  # only the mirrored copy
    picture = np.asarray(Image.open(BytesIO(headset.picture())).convert("RGB"), float)
    half, middle = picture.shape[1] // 2, slice(picture.shape[0] // 2, picture.shape[0])  # without the sky
    (left, at_left), (right, at_right) = blue(picture[middle, :half]), blue(picture[middle, half:])
    assert left > 100 and right > 100
    assert 0.5 < left / right < 2.0
    assert at_left > at_right  # parallax: the left eye sees it farther right
    headset.evaluate("mmRosPage.avatar.show = () => {}; mmRosPage.avatar.mirrored.visible = false")
    without = np.asarray(Image.open(BytesIO(headset.picture())).convert("RGB"), float)
    assert blue(without[middle, :half])[0] < 0.2 * left
    headset.evaluate("delete mmRosPage.avatar.show; mmRosPage.avatar.room.visible = true")


def test_the_benchmark_reports_memory_by_minute_and_its_growth_after_minute_2():
    samples = [(float(t), 100.0 + (0.5 if t >= 120 else 0.0) + t / 600.0) for t in range(0, 600, 5)]
    assert len(bench.by_minute(samples)) == 10
    assert abs(bench.growth(samples) - 420.0 / 600.0) < 0.02
    assert bench.growth(samples[:30]) is None  # the run ended before minute 3


# ---- attacks


def request(port, raw, seconds=20.0):
    """Send bytes; return the answer, b"" if the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as s:
        s.sendall(raw)
        s.shutdown(socket.SHUT_WR) if not raw else None
        try:
            return s.recv(4096)
        except (ConnectionError, TimeoutError):
            return b""


def upgrade(token, host, origin=None):
    lines = [
        f"GET /{token}/socket HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
    ]  # fmt: skip
    lines += [f"Origin: {origin}"] if origin else []
    return "\r\n".join([*lines, "", ""]).encode()


def test_attacks_are_refused_and_the_users_connection_is_unharmed(world, headset):
    port, token = world.port, world.server.token
    own = f"localhost:{port}"
    assert b" 101 " in request(port, upgrade(token, own, f"http://{own}"))
    refused = {
        "no origin": upgrade(token, own),
        "foreign origin": upgrade(token, own, "http://elsewhere.example"),
        "origin null": upgrade(token, own, "null"),
        "another port": upgrade(token, own, "http://localhost:1"),
        "foreign host": upgrade(token, "rebound.example", "http://rebound.example"),
        "wrong token": upgrade("x" * 22, own, f"http://{own}"),
        "no token": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "path": f"GET /{token}/../../etc/passwd HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(),
        "other file": f"GET /{token}/server.py HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(),
        "unknown skin": f"GET /{token}/skin/12 HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(),
        "long line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        "POST": f"POST /{token}/ HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(),
        "garbage": bytes(range(256)) * 4 + b"\r\n\r\n",
        "TLS": b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    }  # fmt: skip
    for name, raw in refused.items():
        answer = request(port, raw)
        assert b"200 OK" not in answer and b" 101 " not in answer, name
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    with urllib.request.urlopen(world.url, timeout=30) as page:  # still answers
        assert b"Your avatar" in page.read()
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert page.headers["Referrer-Policy"] == "no-referrer"
    for s in silent:
        s.close()
    before = len(world.frames)
    world.until(lambda: len(world.frames) > before + 20, "the user's frames go on")
    assert {f.epoch for f in world.frames[before:]} == {world.frames[before - 1].epoch}


BAD = """async () => { const s = new WebSocket(mmRosPage.link.url); s.binaryType = 'arraybuffer';
  await new Promise(r => s.onopen = r);
  const good = mmRosPage.tracking.writer.buffer.slice(0, 112), bad = [];
  const put = (at, type, value) => { const b = good.slice(0), v = new DataView(b);
    v['set' + type](at, value, true); bad.push(b); };
  for (const v of [NaN, Infinity, 1e30, -1e30]) {
    put(24, 'Float32', v); put(8, 'Float64', v); put(52, 'Float32', v); put(16, 'Float32', v); }
  for (const at of [36, 40, 44, 48]) put(at, 'Float32', 3);
  put(1, 'Uint8', 255); put(0, 'Uint8', 77); put(2, 'Uint8', 16); put(108, 'Uint32', 5);
  bad.push(new ArrayBuffer(0), new ArrayBuffer(3), new ArrayBuffer(113), 'hello', '{}', '[]', '{"do": "nothing"}',
    '{"do": "session", "number": -1}', '{"do": 5}', '[' .repeat(2000));
  for (const b of bad) s.send(b);
  let closed = 0; s.onclose = e => closed = e.code;
  await new Promise(r => setTimeout(r, 200));
  const survived = s.readyState === WebSocket.OPEN;
  for (let k = 0; k < 120; k++) if (s.readyState === WebSocket.OPEN) s.send(new ArrayBuffer(3));
  for (let k = 0; k < 1000 && !closed; k++) await new Promise(r => setTimeout(r, 100));
  const flood = closed; const t = new WebSocket(mmRosPage.link.url); await new Promise(r => t.onopen = r);
  let long = 0; t.onclose = e => long = e.code; t.send(new ArrayBuffer(5000));
  for (let k = 0; k < 1000 && !long; k++) await new Promise(r => setTimeout(r, 100));
  return [survived, bad.length, flood, long]; }"""


def test_malformed_messages_are_counted_then_close_the_page(world, headset):
    survived, number, flooded, long = headset.evaluate(BAD)
    assert survived and world.server.counts["malformed"] >= number
    assert (flooded, long) == (1008, 1009)
    count = len(world.frames)
    world.until(lambda: any((f.state[:3] == TRACKED).all() for f in list(world.frames[count:])), "the user is tracked")
    assert all(np.isfinite(f.positions).all() for f in world.frames)
