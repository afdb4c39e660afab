"""Node robot_follower: a robot follows on joint_targets and TF; commands are guarded, or refused as unsafe."""

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")
pytest.importorskip("daqp", reason="daqp is not installed (extra 'robot')")

import numpy as np
import rclpy
from graph_harness import Client, NodeProcess
from processes import PATIENCE_S
from rclpy.parameter import Parameter
from robots import HUMANOID, TEXT, without
from ros_calls import answer_of
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.robot.angles import parsed_angles
from mm_ros.robot.figure import read_figure
from mm_ros.robot.guard import NO_DEADMAN, Command
from mm_ros.ros.conversions import avatar_pose_to_ros, skeleton_to_ros
from mm_ros.ros.nodes.robot_follower import RobotFollower
from mm_ros.ros.senders import joint_message

NAMES = read_figure(HUMANOID).robot.moving


class Stage:
    """A client that publishes poses, the deadman, and the state of a robot that does what it is commanded."""

    def __init__(self, avatar: str, log: Path, **parameters: object) -> None:
        rclpy.init()
        topics = ("joint_targets", "joint_states", "joint_commands", "joint_trajectory", "robot_status", "/tf")
        self.client = Client(avatar, (*topics, "robot/robot_description"))
        self.poses, self.skeletons = self.client.publisher("pose"), self.client.publisher("skeleton")
        self.deadman, self.states = self.client.publisher("deadman"), self.client.publisher("/joint_states")
        self.grips, self.buttons = self.client.publisher("grip_buttons"), [0, 0]
        self.skeleton = default_skeleton()
        self.skeletons.publish(skeleton_to_ros(self.skeleton, self.client.now_ns()))
        self.held, self.measured, self.names = False, dict.fromkeys(NAMES, 0.1), list(NAMES)
        self.moves, self.stale, self.talks, self.order, self.added = True, False, True, list(NAMES), 0.0
        self.process = NodeProcess("robot_follower", avatar, log, **parameters)

    def tick(self) -> None:
        pose = rest_pose(self.skeleton, self.client.now_ns())
        pose.stale = self.stale
        if self.moves:
            self.poses.publish(avatar_pose_to_ros(pose))
        self.deadman.publish(Bool(data=self.held))
        if self.buttons is not None:
            self.grips.publish(Joy(buttons=self.buttons))
        commands = self.client.received["joint_commands"]
        if commands:
            self.measured = dict(zip(self.order, commands[-1].data, strict=True))
        if self.talks:
            angles = [self.measured[n] + self.added for n in self.names]
            self.states.publish(JointState(name=self.names, position=angles))

    def live(self, switch: str = "held", on: Any = True, off: Any = False) -> None:
        """Release and press the deadman switch, again if the node missed the release between two ticks, or if this
        process stood still during the ramp, so that the state of the robot jumped."""
        setattr(self, switch, off)
        assert self.until(lambda: not self.status().startswith(("live", "ramp", "stopping"))), self.status()
        assert any(self.pressed(switch, on, off) for _ in range(20)), (self.status(), self.process.said())

    def pressed(self, switch: str, on: Any, off: Any) -> bool:
        setattr(self, switch, off)
        self.until(lambda: False, 0.3)
        setattr(self, switch, on)
        return self.until(lambda: self.status().startswith("live"), 5.0)

    def stops(self, says: str, switch: str = "held", on: Any = True, off: Any = False, **fault: Any) -> list[Any]:
        """Start the robot, cause a fault, and return the commands from the fault on. Try again if the robot has stopped
        because this process sent the deadman too late."""
        usual = {name: getattr(self, name) for name in fault}
        received = self.client.received["joint_commands"]
        for _ in range(5):
            self.live(switch, on, off)
            sent = len(received)
            vars(self).update(fault)
            reason = self.reason_of_stop(says, NO_DEADMAN)
            assert self.until(lambda sent=sent: len(received) > sent + 2), self.process.said()
            vars(self).update(usual)
            last = received[max(sent - 2, 0) :]
            smooth(last)
            if says in reason:
                return last
        raise AssertionError((says, self.status(), self.process.said()))

    def reason_of_stop(self, *reasons: str) -> str:
        """Wait until the robot stands because of one of the `reasons`, and return the status."""

        def stopped() -> bool:
            return self.status().startswith("held") and any(reason in self.status() for reason in reasons)

        assert self.until(stopped), (reasons, self.status(), self.process.said())
        return self.status()

    def until(self, done, seconds: float = PATIENCE_S) -> bool:
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            self.tick()
            if self.client.spin_until(done, 0.015):
                return True
        return False

    def status(self) -> str:
        heard = self.client.received["robot_status"]
        return heard[-1].data if heard else ""

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.client.close()
        rclpy.try_shutdown()


def test_the_robot_follows_and_a_dry_run_sends_nothing(tmp_path):
    pytest.importorskip("PIL", reason="pillow is not installed (extra 'viewer')")
    plot = tmp_path / "dry.png"
    parameters = {"output": "position", "deadman": "topic", "ramp": 0.5, "plot": plot}
    parameters |= {"stale_after": 5.0}  # a loaded machine may delay poses
    with Stage("robot", tmp_path / "log", urdf=HUMANOID, **parameters) as stage:
        stage.process.wait_ready()
        received = stage.client.received
        assert stage.until(lambda: bool(received["joint_targets"] and received["joint_states"])), stage.process.said()
        state = received["joint_targets"][-1]
        assert tuple(state.name) == NAMES and len(state.position) == len(state.velocity) == 29
        assert all(math.isfinite(a) for a in (*state.position, *state.velocity))
        angles = dict(zip(state.name, state.position, strict=True))
        assert angles["left_shoulder_roll"] == pytest.approx(math.pi / 2, abs=0.05)  # the avatar's T-pose

        def frames() -> set[tuple[str, str]]:
            return {(t.header.frame_id, t.child_frame_id) for m in received["/tf"] for t in m.transforms}

        wanted = {("map", "robot/robot/pelvis"), ("robot/robot/pelvis", "robot/robot/left_hip_pitch_link")}
        assert stage.until(lambda: wanted <= frames())
        assert stage.until(lambda: bool(received["robot/robot_description"]))
        assert received["robot/robot_description"][0].data == HUMANOID.read_text()
        stage.live()
        assert stage.status() == "live (dry run)"
        assert stage.until(lambda: "dry run: would send 29 joints" in stage.process.said())
        assert not received["joint_commands"]
        assert stage.process.stop() == 0, stage.process.said()
        assert plot.stat().st_size > 1000


def test_commands_ramp_in_and_each_stop_latches(tmp_path):
    parameters = {"output": "position", "dry_run": "false", "deadman": "topic", "ramp": 0.5}
    parameters |= {"stale_after": 5.0}  # a loaded machine may delay poses
    with Stage("commanded", tmp_path / "log", urdf=HUMANOID, **parameters) as stage:
        stage.process.wait_ready()
        received = stage.client.received
        stage.names.reverse()  # names and not places decide
        assert stage.until(lambda: stage.status().startswith("off"))
        assert stage.until(lambda: bool(received["joint_targets"])) and not received["joint_commands"]
        stage.live()
        first, shoulder = received["joint_commands"][0].data, NAMES.index("left_shoulder_roll")
        assert max(abs(a - 0.1) for a in first) < 0.05  # the measured state
        assert stage.until(lambda: received["joint_commands"][-1].data[shoulder] > 1.0)
        stage.stops("the deadman was released", held=False)
        stage.stops("lacks joints", names=[name for name in stage.names if name != "left_knee"])
        assert stage.until(lambda: "lacks the angles of left_knee" in stage.process.said())
        assert stage.process.stop() == 0, stage.process.said()


def test_faults_of_robot_and_trackers_stop_the_commands_smoothly(tmp_path):
    """A robot state that jumps or is silent, stale trackers, missing poses, and a robot with another joint order."""
    faults = {
        "jumped by": {"added": 0.5}, "no new state of the robot": {"talks": False},
        "the trackers are stale": {"stale": True}, "no new pose of the avatar": {"moves": False},
    }  # fmt: skip
    parameters = {"output": "position", "dry_run": "false", "deadman": "topic", "ramp": 2.0}
    parameters |= {"stale_after": 2.0}  # a loaded machine may delay poses and the state, which is no fault to test
    with Stage("faulty", tmp_path / "log", urdf=HUMANOID, **parameters) as stage:
        stage.process.wait_ready()
        assert stage.until(lambda: bool(stage.client.received["joint_targets"]))
        for says, fault in faults.items():
            stage.stops(says, **fault)
        # Left and right exchanged: the arms that rise in the T-pose are at the other side.
        stage.order.reverse()
        assert any(error_of_the_first_command(stage) for _ in range(5)), stage.status()
        assert stage.process.stop() == 0, stage.process.said()


def error_of_the_first_command(stage: Stage) -> bool:
    """Return whether a robot that begins to move stops because its joints differ from the commands."""
    received = stage.client.received["joint_commands"]
    stage.held, heard = False, -1
    while heard != (heard := len(received)):
        stage.until(lambda: False, 1.5)  # the commands of the last stop end after 1 s
    received.clear()
    stage.measured, stage.held = dict.fromkeys(NAMES, 0.1), True
    if not stage.until(lambda: bool(received), 10.0):  # The release was too short, because this process stood still.
        return False
    stage.client.received["robot_status"].clear()  # those before the start
    # "jumped by": this process stood still, and then reported the robot far from where it was.
    reason = stage.reason_of_stop("from its command", NO_DEADMAN, "jumped by")
    smooth(received)
    return "from its command" in reason


def smooth(commands: list[Any]) -> None:
    """Check the acceleration of the joints, also at a fault."""
    angles = np.array([c.data for c in commands])
    change = np.diff(np.diff(angles, axis=0) * 50.0, axis=0) * 50.0
    assert np.abs(change).max() <= 60.0 + 1e-6  # `command_acceleration`


def test_the_grip_of_one_controller_is_the_deadman(tmp_path):
    """A grip that was held from the start, or is held in the other hand, does not enable. After a release, missing
    messages or the loss of the controller, the robot does not start by itself."""
    parameters = {"output": "position", "dry_run": "false", "deadman": "grip", "deadman_hand": "left"}
    parameters |= {"ramp": 0.5, "stale_after": 5.0}  # a loaded machine may delay poses
    with Stage("gripped", tmp_path / "log", urdf=HUMANOID, **parameters) as stage:
        stage.process.wait_ready()
        stage.buttons = [1, 0]
        assert stage.until(lambda: bool(stage.client.received["joint_targets"]))
        for before in ([1, 0], [0, 1]):  # the left grip was not released yet; only the right grip is held
            stage.buttons = before
            assert stage.until(lambda: stage.status().startswith("off")), stage.process.said()
            stage.until(lambda: False, 1.0)
            assert stage.status().startswith("off") and not stage.client.received["joint_commands"]
        left = {"switch": "buttons", "on": [1, 0], "off": [0, 1]}
        stage.stops("the deadman was released", **left, buttons=[0, 1])
        for missing in (None, [-1, 1]):  # no messages; a lost controller
            stage.live(**left)
            stage.buttons = missing
            stage.reason_of_stop(NO_DEADMAN)
            stage.buttons = [1, 0]  # as before, without a release
            stage.until(lambda: False, 1.0)
            assert stage.status().startswith("held")
        assert stage.process.stop() == 0, stage.process.said()


def test_the_service_starts_a_stopped_robot_after_false_and_true(tmp_path):
    parameters = {"output": "position", "dry_run": "false", "deadman": "service", "ramp": 0.5, "stale_after": 5.0}
    parameters |= {"largest_jump": 6.0, "largest_error": 6.0}  # a loaded machine may report the state late
    with Stage("served", tmp_path / "log", urdf=HUMANOID, **parameters) as stage:
        stage.process.wait_ready()
        assert stage.until(lambda: bool(stage.client.received["joint_targets"]))
        caller = stage.client.node.create_client(SetBool, "robot_follower/enable")

        def enable(on: bool) -> SetBool.Response:
            return answer_of(caller, SetBool.Request(data=on), stage.until)

        assert stage.until(caller.service_is_ready)
        assert enable(True).success
        assert stage.until(lambda: stage.status() == "live"), stage.status()
        stage.stale = True
        stage.reason_of_stop("the trackers are stale")
        stage.stale = False
        refused = enable(True)
        assert not refused.success and "with false, and then with true" in refused.message
        assert enable(False).success and enable(True).success
        assert stage.until(lambda: stage.status() == "live"), stage.status()
        assert enable(False).success
        stage.reason_of_stop("the deadman was released")
        assert stage.process.stop() == 0, stage.process.said()


@pytest.mark.parametrize(
    ("hand", "buttons", "enabled"),
    [
        ("both", [1, 1], True), ("both", [1, 0], False), ("both", [-1, 0], False), ("both", [1, -1], None),
        ("right", [-1, 1], True), ("right", [0, -1], None), ("left", [0, 1], False), ("left", [1], None),
    ],
)  # fmt: skip
def test_a_grip_that_is_unknown_is_not_released(hand, buttons, enabled):
    node = SimpleNamespace(_s=SimpleNamespace(deadman_hand=hand, deadman_button=3))
    RobotFollower._on_grips(node, Joy(buttons=buttons))
    assert node._enabled is enabled
    RobotFollower._on_joy(node, Joy(buttons=[1, 1, 1]))
    assert node._enabled is None  # a gamepad without the button
    RobotFollower._on_joy(node, Joy(buttons=[0, 0, 0, 1]))
    assert node._enabled is True


def test_a_trajectory_has_the_joints_of_the_ros2_control_tag_in_its_order(tmp_path):
    tag = '<ros2_control name="a" type="system">{}</ros2_control></robot>'
    order = ["right_knee", "left_elbow", "left_knee"]
    path = tmp_path / "controlled.urdf"
    path.write_text(TEXT.replace("</robot>", tag.format("".join(f'<joint name="{name}"/>' for name in order))))
    parameters = {"output": "trajectory", "dry_run": "false", "deadman": "topic", "stale_after": 5.0}
    with Stage("controlled", tmp_path / "log", urdf=path, largest_error=6.0, **parameters) as stage:
        stage.process.wait_ready()
        received = stage.client.received["joint_trajectory"]
        assert stage.until(lambda: stage.status().startswith("off")), stage.process.said()
        stage.live()
        assert stage.until(lambda: len(received) > 5), (stage.status(), stage.process.said())
        assert received[-1].joint_names == order and len(received[-1].points) == 1
        point = received[-1].points[0]
        assert len(point.positions) == len(point.velocities) == 3 and point.time_from_start.nanosec == 20_000_000
        assert stage.process.stop() == 0, stage.process.said()


@pytest.mark.parametrize(
    ("change", "parameters", "says"),
    [
        (("left_hip", "right_hip"), {"output": "position"}, "left leg and right leg not found"),
        ((), {"output": "sonic", "rate": 30.0}, "needs rate 50 Hz"),
        ((), {"output": "position", "joints": "left_knee,left_knee"}, "named twice"),
        ((), {"output": "position", "joints": "tail"}, "joint 'tail' is not in robot"),
        ((), {"output": "twist2", "dry_run": False, "address": "127.0.0.1:9"}, "no Redis at 127.0.0.1:9|needs Redis"),
    ],
)
def test_unsafe_outputs_are_refused_at_the_start(change, parameters, says, tmp_path):
    path = tmp_path / "r.urdf"
    path.write_text(without(TEXT, *change) if change else TEXT)
    rclpy.init()
    try:
        overrides = [Parameter(name, value=value) for name, value in {"urdf": str(path), **parameters}.items()]
        with pytest.raises(MmRosError, match=says):
            RobotFollower(namespace="refused", parameter_overrides=overrides)
    finally:
        rclpy.try_shutdown()


def test_a_trajectory_names_its_joints():
    message = joint_message("trajectory", ("a", "b"), Command(np.array([0.1, 0.2]), np.array([1.0, 2.0])), 0.02)
    assert message.joint_names == ["a", "b"] and message.points[0].time_from_start.nanosec == 20_000_000
    assert list(message.points[0].positions) == [0.1, 0.2] and list(message.points[0].velocities) == [1.0, 2.0]


def test_angles_of_a_parameter_are_read():
    assert parsed_angles("a=1.5, b=-2", "x") == {"a": 1.5, "b": -2.0}
    assert parsed_angles("", "x") == {}
    for wrong in ("a=up", "a=nan", "a"):
        with pytest.raises(MmRosError, match="x: expected 'joint=radians'"):
            parsed_angles(wrong, "x")
