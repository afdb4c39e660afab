"""Limits of input and output values, and the sentences of refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import TRACKED, Calibration, TrackerFrame, rest_pose, still_trajectory
from mm_ros.motion.features import HORIZON_S
from mm_ros.sessions import messages as bag_messages
from mm_ros.tracking.files import read_calibration, write_calibration


@pytest.mark.parametrize("kind", plausible.LIMITS)
def test_each_limit_is_the_largest_that_is_taken(kind):
    limit = plausible.LIMITS[kind]
    for dtype in (np.float64, np.float32)[: 2 if limit.high < 2**24 else 1]:
        plausible.check("x", np.full(3, limit.high, dtype), kind)
        plausible.check("x", np.full((2, 2), limit.low, dtype), kind)
    plausible.check("x", np.zeros(0), kind)
    plausible.check("x", float(limit.high), kind)
    for bad in (limit.high * 1.01, limit.low - 1.0, math.nan, math.inf, -math.inf, 1e308):
        for values in (bad, np.array([0.0, bad, 0.0])):
            with pytest.raises(plausible.Implausible):
                plausible.check("x", values, kind)


def test_the_sentence_names_the_row_the_limit_and_what_came():
    frame = TrackerFrame(0)
    frame.positions[1, 2] = 1e30
    with pytest.raises(MmRosError, match=r"position of left_hand: expected -10000 to 10000 m, came 1e\+30"):
        plausible.trackers(frame)
    frame.positions[1, 2], frame.rotations[2] = 0.0, 0.0
    with pytest.raises(MmRosError, match="rotation of right_hand: expected a quaternion of length 1, came 0"):
        plausible.trackers(frame)


@pytest.mark.parametrize(("sec", "nanosec"), [(-1, 0), (-(2**31), 0), (0, 10**9), (0, 2**32 - 1), (2**31, 0)])
def test_a_stamp_that_cannot_be_is_refused(sec, nanosec):
    with pytest.raises(plausible.Implausible, match="stamp: expected 0 to"):
        plausible.stamp_ns(sec, nanosec)
    assert plausible.stamp_ns(1, 5) == 1_000_000_005


def test_a_leap_is_not_published_unless_the_input_speaks_of_it():
    outputs, here = plausible.Outputs(), still_trajectory(HORIZON_S)
    far = replace(here, position=np.array([60.0, 0.0]))
    outputs.trajectory(here)
    with pytest.raises(plausible.ImplausibleOutput, match="a leap of 60 m"):
        outputs.trajectory(far)
    outputs.trajectory(far)  # accepted again after the reset
    outputs.trajectory(replace(here, epoch=1))
    moved = np.array([-60.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    outputs.trajectory(replace(far, epoch=1, new_from_old=moved))


def test_a_pose_that_is_not_finite_is_not_published():
    outputs, pose = plausible.Outputs(), rest_pose(default_skeleton())
    outputs.pose(pose)
    pose.rotations[3] = np.nan
    with pytest.raises(plausible.ImplausibleOutput, match=r"not published: rotation of .*NaN"):
        outputs.pose(pose)


@pytest.mark.parametrize(
    "wrong",
    [{"head_height": 1e30}, {"head_height": math.nan}, {"arm_span": -1.0}, {"forward_yaw": 1e308},
     {"floor_height": 1e9}, {"headset_in_head": np.array([0, 0, 5.0, 1, 0, 0, 0])},
     {"left_grip_in_hand": np.zeros(7)}, {"head_height": 0.31, "headset_in_head": np.array([0, 0, 0.3, 1, 0, 0, 0])}],
)  # fmt: skip
def test_an_absurd_calibration_is_refused_before_it_is_written(tmp_path, wrong):
    path = tmp_path / "anna.yaml"
    write_calibration(Calibration(user="anna"), path)
    kept = path.read_bytes()
    with pytest.raises(MmRosError, match="of the calibration"):
        write_calibration(replace(Calibration(user="anna"), **wrong), path)
    assert path.read_bytes() == kept


def test_a_file_of_absurd_measures_is_refused_by_its_name(tmp_path):
    path = tmp_path / "anna.yaml"
    write_calibration(Calibration(user="anna"), path)
    path.write_text(path.read_text().replace("head_height: 1.68", "head_height: 1.0e+30"))
    with pytest.raises(MmRosError, match=r"anna\.yaml: head height of .*: expected 0.3 to 3 m, came 1e\+30"):
        read_calibration("anna", path)


def absurd_things():
    """Values of bags and topics, each with one impossible number."""
    frame, moved, pose = TrackerFrame(0), TrackerFrame(0), rest_pose(default_skeleton())
    frame.velocities[0, 1], frame.state[0] = 1e30, TRACKED
    moved.new_from_old = np.array([1e30, 0, 0, 1.0, 0, 0, 0])
    pose.root[2] = -1e9
    seen = Landmarks(0, np.zeros((33, 3)), np.full(33, np.nan, np.float32))
    bones = Skeleton(np.where(default_skeleton().offsets == 0, 0, 1e6).astype(np.float32))
    measured = replace(Calibration(), floor_height=math.inf)
    return {"trackers": frame, "new_from_old": moved, "avatar_pose": pose, "landmarks": seen, "skeleton": bones,
            "calibration": measured}  # fmt: skip


@pytest.mark.parametrize("name", absurd_things())
def test_bags_are_checked_as_topics_are(name):
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    from mm_ros.ros import conversions

    kind = "trackers" if name == "new_from_old" else name
    stamp = (0,) if kind in ("skeleton", "calibration") else ()
    for module, suffix in ((conversions, "ros"), (bag_messages, "bag")):
        message = getattr(module, f"{kind}_to_{suffix}")(absurd_things()[name], *stamp)
        with pytest.raises(plausible.Implausible):
            getattr(module, f"{kind}_from_{suffix}")(message)
