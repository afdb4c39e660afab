"""Procedural walking compared with measurements of gait laboratories, and its consistency."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gait import GaitFigures, gait_figures, jitter, knee_angles, on_floor

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_TOES, RIGHT_TOES, default_skeleton
from mm_ros.maths import rotations as rot
from mm_ros.motion.cleaning.clips import mirror
from mm_ros.motion.procedural import make_clips
from mm_ros.motion.procedural.body import make_motion
from mm_ros.motion.procedural.desired_motion import RATE, Leg, make_desired_motion
from mm_ros.motion.procedural.footsteps import plan_footsteps
from mm_ros.motion.procedural.geometry import from_axes, two_bones
from mm_ros.motion.procedural.smooth import bounded_pendulum, lower_envelope, quintic

MOCAP_LOW_PASS_S = 0.02  # standard deviation, about 8 Hz: what marker data is filtered with in gait laboratories


@pytest.fixture(scope="module")
def clips():
    return {clip.name: clip for clip in make_clips(0)}


@pytest.fixture(scope="module")
def walks(clips) -> dict[float, GaitFigures]:
    """Steady middle of the straight walks."""
    out = {}
    for speed in (0.7, 1.0, 1.3, 1.55, 1.8):
        clip = clips[f"walk {speed:g}"]
        out[speed] = gait_figures(clip, 90, len(clip) - 110)
    return out


@pytest.fixture(scope="module")
def runs(clips) -> dict[float, GaitFigures]:
    return {speed: gait_figures(clips[f"run {speed:g}"], 130, 260) for speed in (2.5, 3.0, 3.5)}


def test_there_are_more_than_six_minutes_with_the_mirrored_ones(clips):
    assert 2 * sum(clip.seconds for clip in clips.values()) > 360


def test_every_kind_of_motion_is_there(clips):
    kinds = {name for clip in clips.values() for name, _, _ in clip.tags}
    wanted = {
        "idle",
        "walk",
        "back",
        "side",
        "turn",
        "curve",
        "start",
        "stop",
        "jog",
        "run",
        "crouch",
        "bend",
        "tiptoe",
    }
    assert wanted <= kinds


def test_speeds_reach_from_slow_steps_to_running(clips):
    def median_speed(name: str) -> float:
        hips = clips[name].globals()[0][:, HIPS, :2]
        return float(np.median(np.linalg.norm(np.diff(hips[100:-110], axis=0), axis=1)) * RATE)

    assert median_speed("walk 0.2") < 0.3
    assert median_speed("run 3.5") > 3.3


def test_same_seed_same_bytes_and_progress_ends_at_one(clips):
    seen: list[float] = []
    again = make_clips(0, seen.append)
    assert all(clips[c.name].rotations.tobytes() == c.rotations.tobytes() for c in again)
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_another_seed_is_another_walk(clips):
    desired = make_desired_motion([Leg(1.0), Leg(2.0, forward=1.0), Leg(1.0)])
    assert not np.array_equal(make_motion("a", desired, 1)[0].rotations, make_motion("a", desired, 2)[0].rotations)


@pytest.mark.parametrize("speed", [1.0, 1.3, 1.55])
def test_walk_ratio_at_comfortable_speeds(walks, speed):
    assert 0.35 <= walks[speed].walk_ratio <= 0.40


def test_speed_is_what_was_asked_for(walks):
    for speed, figures in walks.items():
        assert figures.speed == pytest.approx(speed, rel=0.05)


def test_double_support_is_a_fifth_to_a_third_and_less_the_faster(walks):
    assert 0.15 <= walks[1.3].double_support <= 0.30
    assert walks[0.7].double_support > walks[1.3].double_support > walks[1.8].double_support


def test_walking_has_no_flight_and_running_no_double_support(walks, runs):
    assert all(w.flight == 0.0 for w in walks.values())
    assert all(r.double_support == 0.0 and r.flight > 0.05 for r in runs.values())


def test_pelvis_bobs_two_to_five_centimetres(walks):
    assert all(0.02 <= w.bob <= 0.05 for w in walks.values())


def test_knee_bends_in_swing_and_never_locks(clips, walks):
    assert 50 <= walks[1.0].knee_swing_deg <= 70
    assert 50 <= walks[1.3].knee_swing_deg <= 70
    assert min(knee_angles(clip).min() for clip in clips.values()) > 2.0


def test_knee_gives_way_under_the_weight(walks):
    assert 10 <= walks[1.3].knee_loading_deg <= 30


def test_arms_swing_against_the_legs(walks, runs):
    assert all(figures.arm_leg < -0.8 for figures in (*walks.values(), *runs.values()))


def test_joints_stay_where_bones_hold_them(clips):
    for clip in clips.values():
        assert np.array_equal(
            clip.positions[:, 2:], np.broadcast_to(clip.skeleton.offsets[2:], clip.positions[:, 2:].shape)
        )
        assert np.allclose(np.linalg.norm(clip.rotations, axis=-1), 1, atol=1e-5)


def test_a_flat_foot_never_slides(clips):
    """The ball of the foot does not move between flat landing and heel rise."""
    for clip in clips.values():
        p, q = (a.astype(float) for a in clip.globals())
        for toes, foot in ((LEFT_TOES, LEFT_TOES - 1), (RIGHT_TOES, RIGHT_TOES - 1)):
            pitch = np.abs(rot.rotate(q[:, foot], np.broadcast_to([1.0, 0, 0], p[:, foot].shape))[:, 2])
            down = (p[:, toes, 2] < 0.0151) & (pitch < 1.0 if "tiptoe" in clip.name else pitch < 0.02)
            both = np.convolve(down, np.ones(4), "valid")[:-1] == 4  # and in the frames before and after
            both = np.concatenate([[False], both, [False, False]])[: len(down) - 1]
            moved = np.linalg.norm(np.diff(p[:, toes, :2], axis=0), axis=1)[both]
            assert moved.max(initial=0.0) < 2e-4, clip.name


def test_nothing_goes_through_the_floor(clips):
    for clip in clips.values():
        p, _ = clip.globals()
        assert p[:, [LEFT_TOES, RIGHT_TOES], 2].min() > 0.015 - 0.003, clip.name


def test_both_feet_are_down_when_idle(clips):
    clip = clips["idle"]
    p, q = (a.astype(float) for a in clip.globals())
    assert on_floor(p, q).all()
    assert 0.002 < np.ptp(p[:, HIPS, 1]) < 0.15  # weight shifts
    assert np.ptp(p[:, HEAD, 2]) < 0.02


@pytest.mark.parametrize(
    ("posture", "low", "high"), [("crouch", 0.5, 0.75), ("low", 0.76, 0.86), ("bend", 0.87, 0.95), ("tiptoe", 1.0, 1.1)]
)
def test_postures_hold_the_head_at_their_height(clips, posture, low, high):
    for what in ("idle", "walk", "side", "back"):
        p, _ = clips[f"{posture} {what}"].globals()
        ratio = np.median(p[:, HEAD, 2]) / default_skeleton().head_height
        assert low < ratio < high, what


def test_turns_turn_by_what_was_asked(clips):
    for degrees in (45, 90, 180):
        clip = clips[f"turn {degrees} 1.2"]
        yaw = np.unwrap(rot.yaw_of(clip.rotations[:, 0].astype(float)))
        assert np.degrees(np.ptp(yaw)) == pytest.approx(degrees, abs=8)


def test_motion_is_smooth_in_the_root(clips):
    """The virtual root moves smoothly from frame to frame."""
    for clip in clips.values():
        root = clip.positions[:, 0, :2].astype(float)
        acceleration = np.linalg.norm(np.diff(root, 2, axis=0), axis=1) * RATE**2
        assert acceleration.max() < 12, clip.name


def test_mirrored_left_turn_is_a_right_turn(clips):
    clip = clips["curve 1 1.5"]
    a, b = clip.globals()[0], mirror(clip).globals()[0]
    assert np.allclose(a[:, LEFT_TOES] * [1, -1, 1], b[:, RIGHT_TOES], atol=1e-5)


def _cmu_walks() -> list[Path]:
    data = Path(os.environ.get("MM_ROS_DATA") or Path(__file__).parents[3] / "shared" / "data")
    archive = data / "cmu_locomotion.tar.xz"
    if not archive.is_file():
        pytest.skip(f"{archive} is missing: motion capture to compare with")
    import tarfile
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="mm_ros-test-"))
    names = {f"cmu_locomotion/69_0{i}.bvh" for i in range(1, 6)}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in names:
                tar.extract(member, folder, filter="data")
                names.remove(member.name)
            if not names:
                break
    return sorted(folder.rglob("*.bvh"))


def test_jitter_is_that_of_captured_walking(clips):
    """Mean jerk at 1 m/s, raw below twice CMU's, and within a factor of two behind the same low pass.

    Raw marker data carries noise (about 400 m/s³ against our 100), hence the two bounds.
    """
    loading = pytest.importorskip("mm_ros.motion.importing.load")
    ours_clip = clips["walk 1"]
    ours = ours_clip.globals()[0].astype(float)[90:-110]
    raw, filtered = [], []
    for clip in loading.load_clips(_cmu_walks()):
        p = clip.globals()[0].astype(float)
        speed = np.linalg.norm(np.gradient(p[:, HIPS, :2], axis=0), axis=1) * clip.rate
        steady = np.flatnonzero((speed > 0.8) & (speed < 1.25))
        if len(steady) > 40:
            part = p[steady[0] : steady[-1]]
            raw.append(jitter(part, clip.rate))
            filtered.append(jitter(part, clip.rate, MOCAP_LOW_PASS_S))
    assert raw
    assert jitter(ours, RATE) < 2 * np.mean(raw)
    assert 0.5 < jitter(ours, RATE, MOCAP_LOW_PASS_S) / np.mean(filtered) < 2


# The parts


def test_quintic_meets_both_ends():
    start, end = (1.0, 2.0, 3.0), (4.0, -1.0, 0.5)
    s = np.array([0.0, 1e-4, 1 - 1e-4, 1.0])
    x = quintic(s, 2.0, start, end)
    assert x[0] == 1.0
    assert x[-1] == pytest.approx(4.0)
    assert (x[1] - x[0]) / 2e-4 == pytest.approx(2.0, rel=1e-3)
    assert (x[3] - x[2]) / 2e-4 == pytest.approx(-1.0, rel=1e-3)


def test_pendulum_of_a_still_support_is_still():
    support = np.full((200, 2), 0.7)
    assert np.allclose(bounded_pendulum(support, 3.2, 60.0), 0.7)


def test_lower_envelope_is_below_and_touches():
    x = np.sin(np.arange(300) / 20.0)
    low = lower_envelope(x, 0.1, 60.0)
    assert (low <= x + 1e-9).all()
    assert (x - low).min() < 0.01


def test_from_axes_is_the_rotation_with_those_axes():
    rng = np.random.default_rng(0)
    q = rot.normalize(rng.standard_normal((50, 4)))
    q = np.concatenate([q, [[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]])
    axes = [rot.rotate(q, np.broadcast_to(np.eye(3)[k], (len(q), 3))) for k in range(3)]
    again = from_axes(*axes)
    assert np.allclose(np.abs((again * q).sum(1)), 1)


def test_two_bones_reach_the_goal_and_stop_at_full_length():
    start, pole = np.zeros((2, 3)), np.array([[1.0, 0, 0]] * 2)
    goal = np.array([[0.1, 0.2, -0.6], [0.0, 0.0, -2.0]])
    upper, lower, _ = two_bones(start, goal, pole, 0.4, 0.4)
    end = 0.4 * upper + 0.4 * lower
    assert np.allclose(end[0], goal[0])
    assert np.allclose(end[1], [0, 0, -0.8], atol=1e-3)


def test_standing_needs_no_steps_and_feet_take_turns_in_a_walk():
    assert len(plan_footsteps(make_desired_motion([Leg(5.0)]))) == 2
    steps = plan_footsteps(make_desired_motion([Leg(1.0), Leg(4.0, forward=1.0), Leg(1.0)]))[2:]
    feet = [s.foot for s in steps]
    assert all(a != b for a, b in pairwise(feet))
    assert all(s.lift < s.contact for s in steps)


def test_a_desired_trajectory_is_followed_to_its_end():
    desired = make_desired_motion([Leg(1.0), Leg(3.0, left=0.4), Leg(3.0)])
    clip, _ = make_motion("lateral", desired, seed=1)
    end = clip.globals()[0][-1, HIPS, :2]
    assert np.linalg.norm(end - desired.position[-1]) < 0.06
