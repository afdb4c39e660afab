"""A robot given as URDF follows the avatar: joint_states, its base on TF, its URDF as robot_description."""

import math

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from graph_harness import Client, NodeProcess
from processes import PATIENCE_S
from rclpy.serialization import deserialize_message
from tf2_msgs.msg import TFMessage

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import Calibration, rest_pose
from mm_ros.ros.conversions import avatar_pose_to_ros, skeleton_to_ros
from mm_ros.ros.user_robot import UserRobot, angles


def joint(name: str, parent: str, child: str, xyz: str, axis: str) -> str:
    return (
        f'<link name="{child}"/><joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}"/><axis xyz="{axis}"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>'
    )


def frames_of(client: Client) -> set[str]:
    return {t.child_frame_id for m in client.received["/tf"] for t in m.transforms}


@pytest.fixture
def urdf(tmp_path):
    """URDF of a pelvis with two legs of hip, knee and ankle."""
    out = ['<robot name="legs"><link name="pelvis"/>']
    for side, y in (("left", 0.1), ("right", -0.1)):
        out.append(joint(f"{side}_hip_pitch", "pelvis", f"{side}_thigh", f"0 {y} 0", "0 1 0"))
        out.append(joint(f"{side}_knee", f"{side}_thigh", f"{side}_shin", "0 0 -0.4", "0 1 0"))
        out.append(joint(f"{side}_ankle", f"{side}_shin", f"{side}_foot", "0 0 -0.4", "0 1 0"))
    path = tmp_path / "legs.urdf"
    path.write_text("".join(out) + "</robot>")
    return path


def test_the_robot_stands_as_the_avatar_does(urdf):
    robot = UserRobot(str(urdf), "", "anna", "map")
    robot.wear(default_skeleton())
    state, serialized = robot.step(rest_pose(default_skeleton(), 5))
    base, *links = deserialize_message(serialized, TFMessage).transforms
    assert len(state.name) == len(state.position) == 6
    assert all(abs(a) < 1e-6 for a in state.position)
    assert (base.header.frame_id, base.child_frame_id) == ("map", "anna/robot/pelvis")
    assert base.transform.translation.z > 0.7
    assert {(t.header.frame_id, t.child_frame_id) for t in links} >= {
        ("anna/robot/pelvis", "anna/robot/left_thigh"), ("anna/robot/left_shin", "anna/robot/left_foot")
    }  # fmt: skip
    assert all(t.transform.rotation.w == pytest.approx(1.0) for t in links)


def test_links_are_left_to_robot_state_publisher(urdf):
    robot = UserRobot(str(urdf), "", "anna", "map", links=False)
    robot.wear(default_skeleton())
    frames = deserialize_message(robot.step(rest_pose(default_skeleton(), 5))[1], TFMessage).transforms
    assert [t.child_frame_id for t in frames] == ["anna/robot/pelvis"]


def test_angles_of_the_t_pose_are_read():
    assert angles("a=1.5, b=-2") == {"a": 1.5, "b": -2.0}
    assert angles("") == {}
    with pytest.raises(MmRosError, match="joint=radians"):
        angles("a=up")


def test_a_urdf_that_is_no_human_is_refused(tmp_path):
    path = tmp_path / "box.urdf"
    path.write_text('<robot name="box"><link name="lid"/></robot>')
    with pytest.raises(MmRosError, match="is not a humanoid: it has no joint that turns"):
        UserRobot(str(path), "", "anna", "map")


def test_the_node_publishes_joint_states(urdf, tmp_path):
    rclpy.init()
    client = Client("robot", ("joint_states", "robot_description", "/tf"))
    process = NodeProcess("pose_postprocessor", "robot", tmp_path / "log", urdf=urdf)
    try:
        skeleton = default_skeleton()
        skeletons, poses = client.publisher("skeleton"), client.publisher("matched_pose")
        client.calibrate(Calibration())
        skeletons.publish(skeleton_to_ros(skeleton, client.now_ns()))
        process.wait_ready()
        for _ in range(200):
            poses.publish(avatar_pose_to_ros(rest_pose(skeleton, client.now_ns())))
            if client.spin_until(lambda: bool(client.received["joint_states"]), 0.1):
                break
        assert all(math.isfinite(a) for a in client.received["joint_states"][0].position)
        assert client.spin_until(lambda: bool(client.received["robot_description"]), PATIENCE_S)
        assert client.received["robot_description"][0].data == urdf.read_text()
        assert client.spin_until(lambda: {"robot/robot/pelvis", "robot/root"} <= frames_of(client), PATIENCE_S)
        assert process.stop() == 0, process.said()
    finally:
        process.kill()
        client.close()
        rclpy.try_shutdown()
