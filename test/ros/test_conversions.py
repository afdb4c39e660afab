"""Core → message → core gives the same values; non-finite numbers and wrong lengths are refused with a reason."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from sensor_msgs.msg import Joy

from mm_ros.base.errors import MmRosError
from mm_ros.body import messages
from mm_ros.body.skeleton import J, default_skeleton
from mm_ros.body.types import (
    LOST,
    TRACKED,
    AvatarPose,
    BodyOrientation,
    Calibration,
    R,
    TrackerFrame,
    Trajectory,
)
from mm_ros.maths import rotations as rot
from mm_ros.motion.features import default_layout
from mm_ros.ros import conversions as c
from mm_ros.ros import foreign

RANDOM = np.random.default_rng(5)
STAMP = 1_700_000_123_456_789_012


def quaternions(*shape: int) -> np.ndarray:
    return rot.normalize(RANDOM.normal(size=(*shape, 4)))


def assert_same(a: object, b: object) -> None:
    for name, value in vars(a).items():
        np.testing.assert_array_equal(getattr(b, name), value, err_msg=name)


def trackers() -> TrackerFrame:
    frame = TrackerFrame(STAMP, 3, RANDOM.normal(size=(R, 3)), quaternions(R), RANDOM.normal(size=(R, 3)))
    frame.angular_velocities = RANDOM.normal(size=(R, 3))
    frame.state[:] = TRACKED
    frame.sampled_ns[:] = STAMP - np.arange(R)
    frame.new_from_old = np.concatenate([[1.0, 2.0, 0.0], rot.from_yaw(0.5)])
    return frame


def trajectory() -> Trajectory:
    return Trajectory(
        STAMP, 2, "vr", RANDOM.normal(size=2), RANDOM.normal(size=2), 0.3, 0.1, 0.97,
        np.array([0.3, 0.6, 1.0], np.float32), RANDOM.uniform(-1, 1, (3, 2)).astype(np.float32),
        RANDOM.uniform(-1, 1, (3, 2)).astype(np.float32), True, np.concatenate([[0.0, 1.0, 0.0], rot.from_yaw(-1.0)]),
    )  # fmt: skip


def avatar_pose() -> AvatarPose:
    values = [RANDOM.normal(size=(J, 3)).astype(np.float32) for _ in range(3)]
    rotations = quaternions(J).astype(np.float32)
    values[0][0], rotations[0] = 0, (1, 0, 0, 0)
    root = np.concatenate([RANDOM.normal(size=3), rot.from_yaw(2.0)])
    return AvatarPose(
        STAMP, 7, 2**63 + 5, root, values[0], rotations, values[1], values[2],
        np.array([True, False]), np.array([False, True]), 2**31 + 1, 42, True, "search",
    )  # fmt: skip


def test_trackers_survive():
    frame = trackers()
    assert_same(frame, c.trackers_from_ros(c.trackers_to_ros(frame)))


def test_a_role_that_never_was_there_is_not_sent():
    frame = trackers()
    frame.state[3:], frame.sampled_ns[3:] = LOST, 0
    assert [t.role for t in c.trackers_to_ros(frame).trackers] == ["head", "left_hand", "right_hand"]


def test_a_lost_role_stays_in_the_message():
    frame = trackers()
    frame.state[1] = LOST
    assert c.trackers_to_ros(frame).trackers[1].state == LOST


def test_orientation_survives():
    facing = BodyOrientation(STAMP, 1, -3.0, 0.5, 0.2, "network")
    assert_same(facing, c.orientation_from_ros(c.orientation_to_ros(facing)))


def test_trajectory_survives():
    desired = trajectory()
    assert_same(desired, c.trajectory_from_ros(c.trajectory_to_ros(desired)))


def test_avatar_pose_survives_bit_for_bit():
    pose = avatar_pose()
    assert_same(pose, c.avatar_pose_from_ros(c.avatar_pose_to_ros(pose)))


def test_skeleton_survives_with_its_hash():
    skeleton = default_skeleton().scaled(1.07)
    back = c.skeleton_from_ros(c.skeleton_to_ros(skeleton, STAMP))
    assert back.hash == skeleton.hash
    np.testing.assert_array_equal(back.offsets, skeleton.offsets)


def test_calibration_survives():
    calibration = Calibration("anna", True, "seated", 1.55, 0.02, 1.6, 0.4)
    calibration.headset_in_head = np.array([0.1, 0.01, 0.09, *quaternions(1)[0]])
    assert_same(calibration, c.calibration_from_ros(c.calibration_to_ros(calibration, STAMP)))


def test_quaternions_change_their_order_and_nothing_else():
    assert messages.w_last(np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [2.0, 3.0, 4.0, 1.0]
    assert messages.w_first(np.array([2.0, 3.0, 4.0, 1.0])).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_stamps_survive_to_the_nanosecond():
    assert c.stamp_from_ros(c.stamp_to_ros(STAMP)) == STAMP


def test_nan_in_a_tracker_is_refused():
    msg = c.trackers_to_ros(trackers())
    msg.trackers[1].pose.position.x = float("nan")
    with pytest.raises(MmRosError, match=r"left_hand.*NaN"):
        c.trackers_from_ros(msg)


def test_a_quaternion_of_zero_length_is_refused():
    msg = c.trackers_to_ros(trackers())
    for axis in "xyzw":
        setattr(msg.trackers[0].pose.orientation, axis, 0.0)
    with pytest.raises(MmRosError, match=r"head.*length 1"):
        c.trackers_from_ros(msg)


def test_an_unknown_role_is_refused_with_the_roles():
    msg = c.trackers_to_ros(trackers())
    msg.trackers[0].role = "tail"
    with pytest.raises(MmRosError, match=r"'tail'.*head, left_hand"):
        c.trackers_from_ros(msg)


def test_a_pose_of_another_length_is_refused():
    msg = c.avatar_pose_to_ros(avatar_pose())
    msg.positions = msg.positions[:-3]
    with pytest.raises(MmRosError, match=f"expected {3 * (J - 1)} numbers, came {3 * (J - 2)}"):
        c.avatar_pose_from_ros(msg)


def test_nan_in_a_trajectory_is_refused():
    desired = trajectory()
    desired.positions[1, 0] = np.nan
    with pytest.raises(MmRosError, match="NaN"):
        c.trajectory_from_ros(c.trajectory_to_ros(desired))


def test_another_skeleton_is_refused_with_the_joints():
    msg = c.skeleton_to_ros(default_skeleton(), STAMP)
    msg.joints = ["root", *(f"bone{i}" for i in range(J - 1))]
    with pytest.raises(MmRosError, match="left_upper_arm"):
        c.skeleton_from_ros(msg)


def test_a_gamepad_without_a_second_stick_stands_still_there():
    assert foreign.joy_from_ros(Joy(axes=[0.5, 1.0], buttons=[])) == {
        "move": (1.0, 0.5), "look": (0.0, 0.0), "gait": "walk", "strafe": False,
    }  # fmt: skip


def test_a_path_in_another_frame_is_refused():
    path = Path(poses=[PoseStamped()])
    path.header.frame_id = "odom"
    with pytest.raises(MmRosError, match=r"'map'.*'odom'"):
        foreign.path_from_ros(path)


def test_a_layout_survives_as_far_as_other_nodes_need_it():
    msg = c.feature_layout_to_ros(default_layout(), 5)
    assert c.trajectory_times_from_ros(msg) == default_layout().trajectory_times
    assert f"{msg.hash:016x}" == default_layout().hash and list(msg.weights)[:2] == [6.0, 4.0]


@pytest.mark.parametrize("times", [[], [0.0, 1.0], [0.5, 0.3], [0.5, float("nan")], [0.5, float("inf")]])
def test_a_layout_with_times_that_are_no_horizon_is_refused(times):
    msg = c.feature_layout_to_ros(default_layout(), 5)
    msg.trajectory_times = times
    with pytest.raises(MmRosError, match="ascending trajectory times above 0"):
        c.trajectory_times_from_ros(msg)


@pytest.mark.parametrize("times", [[0.5, 1e9], [0.5, 1e308], [0.01 * (i + 1) for i in range(5000)]])
def test_a_layout_with_an_absurd_horizon_is_refused(times):
    """It is latched and comes once: the trajectories of these times would be refused until the next restart."""
    msg = c.feature_layout_to_ros(default_layout(), 5)
    msg.trajectory_times = times
    with pytest.raises(MmRosError, match="times of the feature layout: expected"):
        c.trajectory_times_from_ros(msg)
