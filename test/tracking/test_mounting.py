"""Mounting of body trackers: measured in a T-pose, in a stand and while walking; wrong places are reported."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import (
    BODY_ROLES,
    CHEST_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_FOREARM_ROLE,
    LEFT_KNEE_ROLE,
    RIGHT_FOOT_ROLE,
    ROLES,
    WAIST_ROLE,
    Calibration,
    TrackerFrame,
)
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.files import read_calibration, write_calibration
from mm_ros.tracking.mounting import MountingStage
from mm_ros.tracking.simulation import Simulation, random_mountings, simulate, simulate_clip
from mm_ros.tracking.sources.synthetic import user_clip

SKELETON = default_skeleton()
KNOWN = from_skeleton(SKELETON)
ALL = Simulation(waist=True, feet=True, chest=True, knees=True, forearms=True, straps=True)


def t_pose(seconds: float = 2.0, facing: float = 0.0, seed: int = 0, straps: bool = True) -> list[TrackerFrame]:
    """Frames of a user in T-pose who faces `facing`, with trackers on random straps."""
    n = int(seconds * 60)
    turn = rot.from_yaw(facing)
    p = rot.rotate(turn, SKELETON.rest_positions().astype(np.float64)) + np.array([1.0, -2.0, 0.0])
    q = np.broadcast_to(turn, (n, len(p), 4))
    track = simulate(np.broadcast_to(p, (n, *p.shape)), q, 60.0, replace(ALL, seed=seed, straps=straps))
    return [track.frame(i) for i in range(len(track))]


def run(frames, stage=None):
    stage = stage or MountingStage(calibration=KNOWN)
    for frame in frames:
        stage.step(frame)
    return stage


def angle_deg(a, b) -> float:
    d = rot.multiply(a, rot.inverse(b))
    return float(np.degrees(2 * np.arctan2(np.linalg.norm(d[1:]), abs(d[0]))))


@pytest.mark.parametrize("seed", range(4))
def test_a_t_pose_measures_all_mountings(seed):
    found = run(t_pose(facing=1.7 * seed, seed=seed)).calibration.mountings
    assert set(found) == {ROLES[r] for r in BODY_ROLES}
    for role, true in random_mountings(seed).items():
        mounting = found[ROLES[role]]
        assert angle_deg(mounting[3:], true[3:]) < 1.0, ROLES[role]
        # A foot's place along and across the shoe is assumed, because the stance is not known.
        axes = [2] if role in (LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE) else [0, 1, 2]
        np.testing.assert_allclose(mounting[axes], true[axes][: len(axes)], atol=0.01, err_msg=ROLES[role])


def test_nothing_is_reported_without_an_upright_body():
    frames = t_pose()
    for frame in frames:
        frame.positions[0, 2] -= 0.4  # squats
    assert run(frames).calibration.mountings == {}


def test_the_arms_are_not_needed_for_waist_and_feet():
    frames = t_pose(4.0, facing=-1.0)
    for frame in frames:
        frame.state[1:3] = 0
    found = run(frames).calibration.mountings
    assert angle_deg(found["waist"][3:], random_mountings(0)[WAIST_ROLE][3:]) < 1.0
    assert "left_forearm" not in found  # its twist shows in a T-pose only


def test_walking_refines_the_waist():
    """A user who looks aside by 20° while standing is put right by the direction of walking."""
    stage = run(t_pose(3.0))
    away = rot.from_yaw(np.radians(20.0))
    stage._mountings[WAIST_ROLE].rotation = tuple(
        rot.multiply(away, np.array(stage._mountings[WAIST_ROLE].rotation)).tolist()
    )
    n = 20 * 90
    frames = t_pose(n / 90)
    for i, frame in enumerate(frames):
        frame.stamp_ns += 10**10
        frame.positions[:, 0] += 1.0 * i / 90
        frame.velocities[:] = (1.0, 0.0, 0.0)
    found = run(frames, stage).calibration.mountings["waist"]
    assert angle_deg(found[3:], random_mountings(0)[WAIST_ROLE][3:]) < 16.0


def test_a_strap_that_slips_is_measured_anew():
    stage = run(t_pose(3.0))
    slipped = rot.exp(np.array([0.0, 0.0, 1.2]))
    frames = t_pose(5.0)
    for frame in frames:
        frame.stamp_ns += 10**10
        frame.rotations[WAIST_ROLE] = rot.multiply(frame.rotations[WAIST_ROLE], slipped)
    found = run(frames, stage).calibration.mountings["waist"]
    assert angle_deg(found[3:], rot.multiply(random_mountings(0)[WAIST_ROLE][3:], slipped)) < 2.0


def test_exchanged_feet_are_reported_and_put_right():
    frames = t_pose(straps=False)
    exchange = list(range(len(ROLES)))
    exchange[LEFT_FOOT_ROLE], exchange[RIGHT_FOOT_ROLE] = RIGHT_FOOT_ROLE, LEFT_FOOT_ROLE
    wrong = [replace(f, positions=f.positions[exchange], rotations=f.rotations[exchange]) for f in frames]
    stage = run(wrong)
    assert [d for d in stage.doubts() if "left_foot and right_foot are exchanged" in d]
    out, _ = stage.step(replace(wrong[-1], stamp_ns=wrong[-1].stamp_ns + 10**8))
    np.testing.assert_array_equal(out.positions, frames[-1].positions)
    assert run(frames).doubts() == []


@pytest.mark.parametrize(
    ("role", "shift", "words"),
    [
        (LEFT_FOOT_ROLE, (0.0, 0.0, 0.2), "on the shin"),
        (WAIST_ROLE, (0.0, 0.0, 0.45), "wrong role"),
        (RIGHT_FOOT_ROLE, (0.0, 0.0, 0.9), "wrong role"),
    ],
)
def test_wrong_places_are_reported(role, shift, words):
    frames = t_pose(straps=False)
    for frame in frames:
        frame.positions[role] += shift
    (doubt,) = run(frames).doubts()
    assert doubt.startswith(ROLES[role]) and words in doubt


def test_back_and_upside_down_are_described_and_cured():
    frames = t_pose(straps=False)
    over = rot.exp(np.array([np.pi, 0.0, 0.0]))
    for frame in frames:
        frame.positions[CHEST_ROLE] -= (0.15, 0.0, 0.0)
        frame.rotations[CHEST_ROLE] = rot.multiply(frame.rotations[CHEST_ROLE], over)
    stage = run(frames)
    assert "on the back" in stage.places()["chest"] and "upside down" in stage.places()["chest"]
    assert stage.doubts() == []
    assert angle_deg(stage.calibration.mountings["chest"][3:], over) < 1.0


def test_a_user_who_never_holds_a_t_pose():
    """The procedural user stands, walks and turns: the waist's facing is right to some degrees."""
    clip = user_clip(30.0, seed=2)
    track = simulate_clip(clip, replace(ALL, seed=3))
    stage = run([track.frame(i) for i in range(len(track))], MountingStage(calibration=from_skeleton(clip.skeleton)))
    true = random_mountings(3)
    for role, limit in ((WAIST_ROLE, 12.0), (LEFT_KNEE_ROLE, 20.0), (LEFT_FOOT_ROLE, 20.0)):
        assert angle_deg(stage.calibration.mountings[ROLES[role]][3:], true[role][3:]) < limit


def test_mountings_are_kept_in_the_users_file(tmp_path):
    found = run(t_pose()).calibration
    path = write_calibration(found, tmp_path / "anna.yaml")
    again = read_calibration("anna", path)
    for role, mounting in found.mountings.items():
        np.testing.assert_allclose(again.mountings[role], mounting, atol=1e-5)
    stage = MountingStage(calibration=again)
    assert stage.places().keys() == found.mountings.keys()
    assert LEFT_FOREARM_ROLE in {ROLES.index(role) for role in stage.places()}


def test_a_file_with_a_wrong_mounting_is_refused(tmp_path):
    path = write_calibration(Calibration(mountings={"waist": np.array([0.1, 0, 0, 1, 0, 0, 0])}), tmp_path / "a.yaml")
    path.write_text(path.read_text().replace("waist", "tail"))
    with pytest.raises(MmRosError, match="tail"):
        read_calibration("a", path)
