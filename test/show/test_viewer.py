"""The viewer: meshes, scene and panel with the real viser; the page itself in a real headless Chromium."""

import time
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from unittest.mock import create_autospec

import numpy as np
import pytest
from chromium import CHROMIUM, Browser, free_port
from page_pictures import pixels_of
from processes import PATIENCE_S

pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")

import viser
from viser import _messages

from mm_ros.base.settings import Spec
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.mesh import flesh_bones
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import HEAD, NAMES, PARENTS, default_skeleton
from mm_ros.body.types import TRACKED, TrackerFrame, rest_pose, still_trajectory
from mm_ros.maths import rotations as rot
from mm_ros.motion.features import default_layout
from mm_ros.ros.remote_settings import live_settings
from mm_ros.show.page import meshes
from mm_ros.show.page.cameras import HAND_OFF_S, Camera
from mm_ros.show.page.features import feature_vectors
from mm_ros.show.page.panels import Panel, slider_range, slider_step
from mm_ros.show.page.scene import LANDMARK_LINES, PALETTE, TRAIL_PIECES, AvatarScene, Trail
from mm_ros.show.page.server import serve, url_of
from mm_ros.show.page.swift import Setters, Swift, mover, swift


@pytest.fixture
def server():
    s = serve("127.0.0.1", free_port())
    yield s
    s.stop()


def test_a_capsule_is_closed_and_looks_outward():
    vertices, faces = meshes.capsule(flesh_bones(default_skeleton())[0])
    assert np.isfinite(vertices).all()
    assert faces.max() < len(vertices)
    middle = vertices.mean(0)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    sized = np.linalg.norm(normals, axis=1) > 1e-9
    outward = ((a - middle) * normals).sum(1)[sized]
    assert (outward > 0).mean() > 0.95


def test_the_body_follows_the_pose(server):
    scene, skeleton = AvatarScene(server, "a"), default_skeleton()
    scene.skeleton("body", skeleton)
    pose = rest_pose(skeleton)
    pose.root[:2] = (2.0, 1.0)
    scene.body("body", pose)
    assert scene.head == pytest.approx(skeleton.rest_positions()[HEAD] + (2.0, 1.0, 0.0), abs=1e-5)


def test_a_pose_of_another_skeleton_is_not_drawn(server):
    scene, skeleton = AvatarScene(server, "a"), default_skeleton()
    scene.skeleton("body", skeleton)
    scene.body("body", rest_pose(skeleton.scaled(1.1)))
    assert scene.root.tolist() == [0, 0, 0]


def test_joints_in_the_room_are_those_of_the_slow_way():
    pose, rng = rest_pose(default_skeleton()), np.random.default_rng(1)
    pose.rotations[:] = rot.normalize(rng.normal(size=pose.rotations.shape))
    pose.root[:] = (1.0, 2.0, 0.5, *rot.normalize(rng.normal(size=4)))
    p, q = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
    p[0], q[0] = pose.root[:3], pose.root[3:]
    for fast, slow in zip(room_joints(pose), rot.forward_kinematics(PARENTS, p, q), strict=True):
        assert fast == pytest.approx(slow, abs=1e-6)


def test_what_goes_past_the_setters_is_what_viser_itself_would_send():
    for message, values in (
        (_messages.SetBonePositionMessage, ("/a", 3, (1.0, 2.0, 3.0))),
        (_messages.SetBoneOrientationMessage, ("/a", 3, (1.0, 0.0, 0.0, 0.0))),
        (_messages.SetPositionMessage, ("/a", (1.0, 2.0, 3.0))),
        (_messages.SetOrientationMessage, ("/a", (1.0, 0.0, 0.0, 0.0))),
        (_messages.SetCameraPositionMessage, ((1.0, 2.0, 3.0),)),
        (_messages.SetCameraLookAtMessage, ((1.0, 2.0, 3.0),)),
    ):
        assert swift(message)(*values).as_serializable_dict([]) == message(*values).as_serializable_dict([])


def test_this_viser_has_the_names_that_the_fast_way_needs(server):
    assert isinstance(mover(server), Swift)


def test_without_them_the_setters_move_the_body(server):
    setters, skeleton = Setters(), default_skeleton()
    scene = AvatarScene(server, "a")
    scene.skeleton("body", skeleton)
    scene._bodies["body"]._move = scene._move = setters
    pose = rest_pose(skeleton)
    pose.root[:2] = (2.0, 1.0)
    scene.body("body", pose)
    hips = scene._bodies["body"]._mesh.bones[0].position
    assert hips == pytest.approx(skeleton.rest_positions()[1] + (2.0, 1.0, 0.0), abs=1e-5)


def test_only_bones_that_moved_are_sent(server):
    scene, skeleton = AvatarScene(server, "a"), default_skeleton()
    scene.skeleton("body", skeleton)
    sent = []
    move = scene._bodies["body"]._move = create_autospec(Setters, instance=True)
    move.bone.side_effect = lambda *what: sent.append(what)
    pose = rest_pose(skeleton)
    scene.body("body", pose)
    first = len(sent)
    scene.body("body", pose)
    assert first == len(sent) == len(NAMES) - 1
    pose.rotations[HEAD] = (0.0, 0.0, 0.0, 1.0)
    scene.body("body", pose)
    _, j, p, q = sent[-1]
    assert (len(sent), j, p, q) == (first + 1, HEAD - 1, None, [0.0, 0.0, 0.0, 1.0])


def test_trackers_and_desired_trajectory_are_drawn(server):
    scene = AvatarScene(server, "a")
    frame = TrackerFrame(0)
    frame.state[0] = TRACKED
    frame.positions[0] = (0, 0, 1.7)
    scene.trackers(frame)
    scene.desired(still_trajectory((0.3, 0.6, 1.0)))
    assert [t.visible for t in scene._trackers] == [True] + [False] * (len(scene._trackers) - 1)


def test_landmarks_stand_beside_the_avatar(server):
    scene, skeleton = AvatarScene(server, "a"), default_skeleton()
    scene.skeleton("body", skeleton)
    seen = Landmarks(0, np.zeros((33, 3)), np.ones(33, np.float32))
    scene.landmarks(seen)  # no avatar yet
    scene.body("body", rest_pose(skeleton))
    scene.landmarks(seen)
    seen.positions[0] = (0.1, 0.2, 0.3)
    scene.landmarks(seen)
    points, lines = scene._seen
    assert points.points[0] == pytest.approx(skeleton.rest_positions()[1] + (0.1, -0.8, 0.3), abs=1e-3)
    assert len(np.unique(LANDMARK_LINES)) == len(points.points)
    assert len(lines.points) == len(LANDMARK_LINES)


def test_a_slider_keeps_to_the_settings_range():
    assert slider_range(0.1, Spec("", low=0.0, high=10.0)) == (0.0, 0.5)
    assert slider_range(2.0, Spec("", low=1.0, high=3.0)) == (1.0, 3.0)


def test_a_slider_moves_in_round_steps():
    assert [slider_step(0.0, high) for high in (0.5, 1.0, 2.5, 180.0)] == [0.005, 0.01, 0.02, 1.0]


def test_a_value_set_elsewhere_is_shown_even_beyond_the_slider(server):
    panel = Panel(server, lambda *_: None)
    panel.settings.add("node", 0, {"lead": (1.0, Spec("", low=0.0, high=100.0))})
    slider = panel.settings._handles[("node", "lead")]
    panel.settings.show("node", "lead", 42.0)
    assert slider.value == 42.0
    assert slider.max >= 42.0


def test_a_file_is_chosen_among_known_ones_and_no_path_comes_from_the_page(server, tmp_path):
    for name in ("one.mmdb", "two.mmdb", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    sent = []
    panel = Panel(server, lambda *action: sent.append(action))
    panel.settings.add("matcher", 0, {"database": (str(tmp_path / "one.mmdb"), Spec("", file=".mmdb"))})
    handle = panel.settings._handles[("matcher", "database")]
    assert tuple(handle.options) == ("default", "one.mmdb", "two.mmdb")
    choose = handle._impl.update_cb[0]
    for value in ("two.mmdb", "/etc/passwd", str(tmp_path / "notes.txt"), "default"):
        choose(SimpleNamespace(client=object(), target=SimpleNamespace(value=value)))
    assert sent == [("set", "matcher", "database", str(tmp_path / "two.mmdb")), ("set", "matcher", "database", "")]
    panel.settings.show("matcher", "database", str(tmp_path / "sub" / "one.mmdb"))  # set elsewhere
    assert handle.value == str(tmp_path / "sub" / "one.mmdb")
    panel.settings.show("matcher", "database", str(tmp_path / "two.mmdb"))
    assert handle.value == "two.mmdb"


def test_every_live_setting_that_names_a_file_says_so():
    live = {(node, name): spec for node, fields in live_settings().items() for name, (_, spec) in fields.items()}
    told = {key for key, spec in live.items() if spec.file}
    assert told == {("motion_matcher", "database"), ("motion_matcher", "model")}
    for key, spec in live.items():
        assert key in told or not any(w in spec.description.lower() for w in ("file of", "folder", "path of")), key


def test_features_are_read_by_their_names():
    layout = default_layout()
    found = feature_vectors(layout.column_names, np.arange(layout.size, dtype=float))
    assert [round(t, 2) for t in sorted(found.positions)] == [0.33, 0.67, 1.0]
    assert found.positions[1.0].tolist() == [4, 5, 0]
    assert found.joints["right_foot"].tolist() == [15, 16, 17]
    assert found.velocities["hips"].tolist() == [24, 25, 26]
    places, ways = found.path(np.array([1.0, 2.0, 0.0, 1.0, 0, 0, 0]))
    assert places[0].tolist() == [1, 2, 0]
    assert places[-1].tolist() == [5, 7, 0]
    assert len(ways) == 4


@pytest.fixture
def browser_camera(server):
    """Following camera, its scene, the offsets sent to the browser, the browser's reported camera, the mode."""
    client, told = create_autospec(viser.ClientHandle, instance=True), []
    client.camera = SimpleNamespace(position=np.array([0.0, 4.0, 0.0]), look_at=np.zeros(3), fov=0.75)
    client.gui = create_autospec(viser.GuiApi, instance=True)
    client.gui.add_dropdown.return_value = mode = SimpleNamespace(value="follow")
    move = create_autospec(Setters, instance=True)
    move.camera.side_effect = lambda _, eye, target: told.append(np.subtract(eye, target))
    return Camera(client, nullcontext(), move), AvatarScene(server, "a"), told, client.camera, mode


def test_the_view_begins_as_it_is_meant_whatever_the_browser_says_first(browser_camera):
    camera, scene, told, _, _ = browser_camera
    for _ in range(3):
        camera.move(scene)
    assert all(offset == pytest.approx((2.5, -2.7, 0.7)) for offset in told)
    assert len(told) > 2


def test_the_user_turns_the_view_once_the_browser_has_the_camera(browser_camera):
    camera, scene, told, says, _ = browser_camera
    camera.move(scene)
    says.position, says.look_at = np.array([2.5, -2.7, 1.6]), np.array([0.0, 0.0, 0.9])
    camera.move(scene)
    says.position = np.array([3.0, 0.0, 1.9])
    camera.move(scene)
    time.sleep(HAND_OFF_S + 0.05)
    camera.move(scene)
    assert told[-1] == pytest.approx((3.0, 0.0, 1.0))


def test_orbit_leaves_the_camera_alone_and_follow_goes_on_from_there(browser_camera):
    camera, scene, told, says, mode = browser_camera
    mode.value = "orbit"
    camera.move(scene)
    assert told == []
    says.position = np.array([1.0, 1.0, 1.0])
    mode.value = "follow"
    camera.move(scene)
    assert told[-1] == pytest.approx((1.0, 1.0, 1.0))


def test_the_trail_keeps_its_last_metres(server):
    trail = Trail(server, "/a/trail")
    for i in range(2000):
        trail.extend((0.05 * i, 0.0, 0.0))
    assert len(trail._pieces) == TRAIL_PIECES
    assert trail._pieces[-1].points[-1, -1, 0] == pytest.approx(0.05 * 1999)
    ends = [p.points[-1, -1, 0] for p in trail._pieces]
    starts = [p.points[0, 0, 0] for p in trail._pieces]
    assert ends[:-1] == pytest.approx(starts[1:])  # without gaps


def test_the_panel_lists_the_avatars(server):
    panel = Panel(server, lambda *_: None)
    panel.avatars(("anna", "ben"))
    assert tuple(panel.avatar.options) == ("anna", "ben")


def leaves_the_machine(url: str) -> bool:
    return url.startswith(("http", "ws")) and "127.0.0.1" not in url


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt install chromium")
def test_the_page_shows_an_avatar_that_walks_and_serves_a_late_browser(server):
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")
    scene, skeleton = AvatarScene(server, "a"), default_skeleton()
    scene.skeleton("body", skeleton)
    panel = Panel(server, lambda *action: actions.append(action))
    actions: list = []
    pose = rest_pose(skeleton)
    scene.body("body", pose)
    server.initial_camera.position, server.initial_camera.look_at = (2.6, -2.6, 1.7), (0.0, 0.0, 0.9)
    with sync.sync_playwright() as p, ExitStack() as stack:
        browser = Browser(p)
        stack.enter_context(browser.within(3 * PATIENCE_S))
        outside: list[str] = []
        page = browser.new_page()
        page.on("request", lambda r: outside.append(r.url) if leaves_the_machine(r.url) else None)
        page.goto(url_of(server))
        before = body_pixels(page, lambda now, last: now.sum() > 300 and np.array_equal(now, last))
        pose.root[:2] = (0.8, 0.4)
        scene.body("body", pose)
        body_pixels(page, lambda now, _: (now != before).sum() > 300)
        page.get_by_role("button", name="reset").click()
        until = time.monotonic() + PATIENCE_S
        while not actions and time.monotonic() < until:
            page.wait_for_timeout(100)
        assert ("reset",) in actions
        late = browser.new_page()
        late.goto(url_of(server))
        body_pixels(late, lambda now, _: now.sum() > 300)
        browser.close_page(page)
        scene.body("body", pose)
        browser.close_page(late)
        browser.close()
        assert outside == []
    assert panel.avatar.value == "–"


def body_pixels(page, fits, seconds: float = PATIENCE_S) -> np.ndarray:
    """The avatar's pixels in the first picture for which `fits(pixels, those of the picture before)`."""
    page.wait_for_selector("canvas:visible", timeout=1000 * seconds)
    last, now, until = None, pixels_of(page, PALETTE[0]), time.monotonic() + seconds
    while last is None or not fits(now, last):
        assert time.monotonic() < until, f"no such picture within {seconds:g} s"
        page.wait_for_timeout(100)
        last, now = now, pixels_of(page, PALETTE[0])
    return now
