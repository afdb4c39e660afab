"""The nodes that steer a character: messages → `trajectory`, without a headset."""

import math
from dataclasses import replace

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from chain_in_process import FRAME_NS, Chain
from geometry_msgs.msg import PointStamped, PoseStamped
from nav_msgs.msg import Path
from rclpy.parameter import Parameter
from sensor_msgs.msg import Joy
from std_msgs.msg import Float64

from mm_ros.motion import default_database
from mm_ros.motion.feature_files import format_layout
from mm_ros.motion.features import FeatureLayout, default_layout
from mm_ros.motion.procedural import make_clips


@pytest.fixture(scope="module")
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


@pytest.fixture
def chain(ros, monkeypatch, request):
    control = request.param if isinstance(request.param, str) else request.param[0]
    overrides = {} if isinstance(request.param, str) else {control: request.param[1]}
    made = Chain(monkeypatch, control, **overrides)
    yield Steered(made, control)
    made.close()


class Steered:
    def __init__(self, chain, control):
        self.chain, self.node = chain, chain.nodes[control]

    def run(self, seconds, *messages):
        """Place and heading (F, 3) of the desired trajectory while these messages arrive before each frame."""
        out = []
        for _ in range(round(seconds * 60)):
            for topic, message in messages:
                self.chain.send(topic, message)
            self.chain.pump()
            self.chain.now_ns += 16_666_667
            self.node._step()
            desired = self.chain.last["trajectory"]
            assert np.isfinite(desired.positions).all()
            out.append([*desired.position, desired.yaw])
        return np.array(out)


def stick(forward, left, buttons=()):
    axes, pressed = [float(left), float(forward), 0.0, 0.0, 0.0], [int(i in buttons) for i in range(6)]
    return "joy", Joy(axes=axes, buttons=pressed)


def path(*points, frame="map"):
    msg = Path()
    msg.header.frame_id = frame
    for x, y in points:
        msg.poses.append(PoseStamped())
        msg.poses[-1].pose.position.x, msg.poses[-1].pose.position.y = float(x), float(y)
    return ("path", msg)


@pytest.mark.parametrize("chain", ["joystick_control"], indirect=True)
def test_the_stick_leads_and_the_camera_turns_its_directions(chain):
    ahead = chain.run(3.0, stick(1, 0))
    assert ahead[-1, 0] > 2.5 and abs(ahead[-1, 1]) < 0.3
    left = chain.run(2.0, stick(0, 1))
    assert left[-1, 2] == pytest.approx(math.pi / 2, abs=math.radians(5))
    jog = chain.run(3.0, stick(0, 1, buttons=(5,)))
    assert np.linalg.norm(jog[-1, :2] - jog[-61, :2]) == pytest.approx(2.5, rel=0.1)
    turned = chain.run(2.0, stick(1, 0), ("camera_heading", Float64(data=math.pi)))
    assert abs(turned[-1, 2]) > math.radians(170)
    still = chain.run(2.0)
    assert np.linalg.norm(still[-1, :2] - still[-30, :2]) < 0.1  # no message: a released stick


@pytest.mark.parametrize("chain", ["joystick_control"], indirect=True)
def test_absurd_sticks_are_refused_and_the_character_walks_on(chain):
    chain.run(1.5, stick(1, 0))
    for axes in ([math.nan] * 5, [1e30] * 5, []):
        before = chain.node.health.refused
        roots = chain.run(0.2, stick(1, 0), ("joy", Joy(axes=axes)))
        assert np.isfinite(roots).all()
        assert (chain.node.health.refused > before) == bool(axes)
    assert chain.run(1.0, stick(1, 0))[-1, 0] > 1.5


@pytest.mark.parametrize("chain", ["path_control"], indirect=True)
def test_a_path_a_goal_and_a_clicked_point_are_walked(chain):
    chain.chain.send(*path((0, 0), (2, 0)))
    first = chain.run(4.0)
    assert first[-1, :2] == pytest.approx((2, 0), abs=0.15)
    chain.chain.send(*path((2, 2), (4, 2)))  # elsewhere
    away = chain.run(6.0)
    assert np.linalg.norm(np.diff(away[:, :2], axis=0), axis=1).max() < 0.1
    assert np.linalg.norm(away[:, :2] - (2, 2), axis=1).min() < 0.2 and away[-1, :2] == pytest.approx((4, 2), abs=0.15)
    goal = PoseStamped()
    goal.pose.position.x, goal.pose.position.y, goal.pose.orientation.w = 4.0, 4.0, 1.0
    chain.chain.send("/goal_pose", goal)
    there = chain.run(5.0)
    assert there[-1, :2] == pytest.approx((4, 4), abs=0.15) and abs(there[-1, 2]) < math.radians(15)
    point = PointStamped()
    point.point.x, point.point.y = 5.5, 4.0
    chain.chain.send("/clicked_point", point)
    assert chain.run(4.0)[-1, :2] == pytest.approx((5.5, 4), abs=0.15)


@pytest.mark.parametrize("chain", [("path_control", [Parameter("world_frame", value="odom")])], indirect=True)
def test_rviz_shows_the_curve_the_key_points_and_the_progress(chain):
    chain.chain.send(*path((0, 0), (2, 0), (2, 2), frame="odom"))
    shares, behind = [], []
    for _ in range(10):
        chain.run(0.5)
        chain.node._draw()
        marks = {m.id: m for m in chain.chain.last["markers/path"].markers}
        assert {(m.ns, m.header.frame_id) for m in marks.values()} == {("path", "odom")}
        assert [(p.x, p.y) for p in marks[2].points] == [(0, 0), (2, 0), (2, 2)]
        root = chain.chain.last["trajectory"].position
        (ahead,) = [m.points[0] for m in (marks[1],) if m.points] or [marks[0].points[-1]]
        assert math.hypot(ahead.x - root[0], ahead.y - root[1]) < 0.02
        shares.append(int(marks[3].text.rstrip("%")))
        behind.append(len(marks[0].points))
    assert shares == sorted(shares) and shares[0] < 30 and shares[-1] == 100
    assert behind == sorted(behind) and behind[-1] > 500


@pytest.mark.parametrize(
    "chain", [("path_control", [Parameter("speeds", value=[0.6, 0.6]), Parameter("loop", value=True)])], indirect=True
)
def test_absurd_paths_are_refused_and_the_character_walks_on(chain):
    chain.chain.send(*path((0, 0), (3, 0), (3, 3)))
    chain.run(1.0)
    absurd = [path((0, 0), (math.nan, 1)), path((0, 0), (1, 1), frame="odom"), path((0, 0), (1e8, 0)), path()]
    for message in absurd:
        before = chain.node.health.refused
        chain.chain.send(*message)
        chain.run(0.1)
        assert chain.node.health.refused == before + 1, message
    walking = chain.run(2.0)
    assert np.linalg.norm(walking[-1, :2] - walking[-61, :2]) == pytest.approx(0.6, abs=0.15)
    chain.chain.now_ns -= 5 * FRAME_NS  # time goes back
    assert np.isfinite(chain.run(0.5)).all()


OWN_LAYOUT = FeatureLayout(
    tuple(replace(f, times=(0.3, 0.9)) if f.is_trajectory else f for f in default_layout().features)
)


@pytest.fixture(scope="module")
def small_databases(tmp_path_factory):
    """Default databases of a few clips, in a folder of this run: a whole one of each layout takes half a minute."""
    folder, clips = tmp_path_factory.mktemp("databases"), make_clips(0)[:8]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_database, "make_clips", lambda *_: clips)
        patch.setattr(default_database, "writable_root", lambda: folder)
        yield


@pytest.mark.parametrize(
    ("given", "times", "velocity"),
    [
        ({}, (1 / 3, 2 / 3, 1.0), False),
        ({"control": "keyboard"}, (1 / 3, 2 / 3, 1.0), True),
        ({"control": "path", "steered_features": "own"}, (0.3, 0.9), False),
        ({"features": "own"}, (0.3, 0.9), False),
        ({"features": "own", "control": "joystick"}, (1 / 3, 2 / 3, 1.0), True),
    ],
)
def test_the_control_chooses_the_feature_layout(
    ros, monkeypatch, tmp_path_factory, small_databases, given, times, velocity
):
    own = tmp_path_factory.getbasetemp() / "own_layout.yaml"
    own.write_text(format_layout(OWN_LAYOUT))
    values = {name: str(own) if value == "own" else value for name, value in given.items()}
    chain = Chain(monkeypatch, "motion_matcher", motion_matcher=[Parameter(k, value=v) for k, v in values.items()])
    try:
        layout = chain.last["feature_layout"]
        assert list(layout.trajectory_times) == pytest.approx(times)
        assert ("trajectory_velocity" in layout.features) == velocity
    finally:
        chain.close()
