"""The pose stage: exact at the trackers, smooth at changes, robust against bad input."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import (  # fmt: skip
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_TOES,
    LEFT_UPPER_ARM,
    NECK,
    PARENTS,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_TOES,
    SPINE,
    UPPER_CHEST,
    J,
    default_skeleton,
)
from mm_ros.body.types import (  # fmt: skip
    BODY_ROLES,
    CHEST_ROLE,
    HEAD_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_HAND_ROLE,
    LEFT_KNEE_ROLE,
    LOST,
    RIGHT_FOOT_ROLE,
    RIGHT_HAND_ROLE,
    ROLES,
    TRACKED,
    WAIST_ROLE,
    AvatarPose,
    Calibration,
    R,
    TrackerFrame,
    identity_pose,
)
from mm_ros.maths import rotations as rot
from mm_ros.pose.kernel import calm, make_hold
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.tracking.calibration import from_skeleton

SKELETON = default_skeleton()
# Body trackers sit exactly on their joints.
CALIBRATION = replace(from_skeleton(SKELETON), mountings={ROLES[r]: identity_pose() for r in BODY_ROLES})
REST = SKELETON.rest_positions().astype(np.float64)
STEP_NS = 11_111_111
Vec = tuple[float, float, float]


def matched(i: int, root: Vec = (0.0, 0.0, 0.0), contact: bool = True, **more: Any) -> AvatarPose:
    """Standing with soft knees and arms half down; `root`: x, y, yaw."""
    q = np.tile(np.array([1.0, 0, 0, 0], np.float32), (J, 1))
    for hip, knee, foot in ((15, 16, 17), (19, 20, 21)):
        q[hip], q[knee], q[foot] = (rot.exp(np.array([0.0, a, 0.0])) for a in (-0.2, 0.4, -0.2))
    for j, turn in ((8, -1.2), (12, 1.2)):
        q[j] = rot.exp(np.array([turn, 0.0, 0.0]))
    p = SKELETON.offsets.copy()
    p[0] = 0
    p[HIPS, 2] -= 0.82 * (1 - math.cos(0.2))
    zero = np.zeros((J, 3), np.float32)
    pose = np.array([root[0], root[1], 0.0, *rot.from_yaw(root[2])])
    feet = np.full(2, contact)
    made = AvatarPose(i * STEP_NS, 0, SKELETON.hash, pose, p, q, zero, zero.copy(), feet, np.zeros(2, bool))
    return replace(made, **more)


def room(pose: AvatarPose) -> tuple[np.ndarray, np.ndarray]:
    p, q = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
    p[0], q[0] = pose.root[:3], pose.root[3:]
    return rot.forward_kinematics(PARENTS, p, q)


def trackers(i: int, move: Vec = (0.0, 0.0, 0.0), look: float = 0.0, lost: tuple[int, ...] = ()) -> TrackerFrame:
    """Trackers of the matched pose, moved; hands in front of the belly."""
    p, _ = room(matched(i))
    t = TrackerFrame(i * STEP_NS)
    t.state[:3] = TRACKED
    t.rotations[HEAD_ROLE] = rot.from_yaw(look)
    t.positions[HEAD_ROLE] = p[HEAD] + move + rot.rotate(rot.from_yaw(look), CALIBRATION.headset_in_head[:3])
    for role, y in ((LEFT_HAND_ROLE, 0.2), (RIGHT_HAND_ROLE, -0.2)):
        t.positions[role] = np.array([0.35, y, 1.1]) + move
    t.state[list(lost)] = LOST
    return t


def grip(pose: AvatarPose, side: int = 0) -> np.ndarray:
    p, q = room(pose)
    hand = (LEFT_HAND, RIGHT_HAND)[side]
    offset = (CALIBRATION.left_grip_in_hand, CALIBRATION.right_grip_in_hand)[side]
    return p[hand] + rot.rotate(q[hand], offset[:3])


def headset(pose: AvatarPose) -> np.ndarray:
    p, q = room(pose)
    return p[HEAD] + rot.rotate(q[HEAD], CALIBRATION.headset_in_head[:3])


def stage(**settings: Any) -> PostStage:
    return PostStage(PostSettings(**settings), SKELETON, CALIBRATION)


def test_without_trackers_head_and_hands_stay_as_matched() -> None:
    post = stage()
    for i in range(20):
        out = post.step(matched(i))
    got, want = room(out)[0], room(matched(0))[0]
    assert np.abs(got - want).max() < 0.006  # feet land softly, a few millimetres above
    assert np.abs(got[SPINE:15] - want[SPINE:15]).max() < 1e-5


def test_the_input_is_not_touched() -> None:
    a = matched(0)
    before = a.positions.copy(), a.rotations.copy()
    stage().step(a, trackers(0, (0.1, 0.0, -0.1)))
    assert np.array_equal(a.positions, before[0]) and np.array_equal(a.rotations, before[1])


@pytest.mark.parametrize("move", [(0.05, 0.0, 0.0), (0.08, -0.06, -0.15), (-0.1, 0.0, -0.3), (0.0, 0.15, -0.02)])
@pytest.mark.parametrize("look", [0.0, 1.0, -1.4])
def test_head_and_hands_are_on_their_trackers_and_feet_stay(move: Vec, look: float) -> None:
    post = stage()
    for i in range(60):
        share = min(i / 30, 1.0)
        t = trackers(i, tuple(share * m for m in move), look * share)
        out = post.step(matched(i), t)
    assert np.linalg.norm(headset(out) - t.positions[HEAD_ROLE]) < 0.005
    q = room(out)[1][HEAD]
    assert abs(float(rot.yaw_of(q)) - look) < 1e-5
    for side in range(2):
        assert np.linalg.norm(grip(out, side) - t.positions[LEFT_HAND_ROLE + side]) < 0.005
    toes = room(out)[0][[LEFT_TOES, RIGHT_TOES]]
    assert np.abs(toes[:, :2] - room(matched(0))[0][[LEFT_TOES, RIGHT_TOES], :2]).max() < 0.005
    assert out.locked.all()


def test_the_lean_that_is_added_has_a_limit_before_the_head_is_reached() -> None:
    post = stage(hips_reach=0.1)
    for i in range(60):
        out = post.step(matched(i), trackers(i, (0.6, 0.0, 0.0)))
    before, after = (rot.unit(p[NECK] - p[HIPS]) for p in (room(matched(0))[0], room(out)[0]))
    added = math.degrees(math.acos(before @ after))
    assert added < 10
    assert post.added_lean_deg == pytest.approx(added, abs=0.1)


def run(post: PostStage, poses: list[AvatarPose], told: list[TrackerFrame | None]) -> list[AvatarPose]:
    return [post.step(a, t) for a, t in zip(poses, told, strict=True)]


def largest_step(poses: list[AvatarPose], joint: int) -> float:
    return float(np.linalg.norm(np.diff([room(p)[0][joint] for p in poses], axis=0), axis=1).max())


def test_a_lost_controller_hands_the_arm_back_in_0_3_s_and_takes_it_again() -> None:
    post = stage()
    told = [trackers(i, lost=(LEFT_HAND_ROLE,) if 30 <= i < 90 else ()) for i in range(150)]
    out = run(post, [matched(i) for i in range(150)], told)
    arm = [p.rotations[LEFT_UPPER_ARM] for p in out]
    free = matched(0).rotations[LEFT_UPPER_ARM]
    assert abs(float(arm[29] @ free)) < 0.999
    assert abs(float(arm[30 + 28] @ free)) == pytest.approx(1.0, abs=1e-5)  # 0.31 s
    assert np.linalg.norm(grip(out[-1]) - told[-1].positions[LEFT_HAND_ROLE]) < 0.005
    assert largest_step(out, LEFT_HAND) < 0.05
    assert largest_step(out, RIGHT_HAND) < 1e-3


def test_a_controller_that_comes_back_elsewhere_does_not_pop() -> None:
    post = stage()
    told = []
    for i in range(60):
        t = trackers(i, lost=(LEFT_HAND_ROLE,) if 20 <= i < 32 else ())
        if i >= 32:
            t.positions[LEFT_HAND_ROLE] += (0.0, 0.15, 0.15)
        told.append(t)
    out = run(post, [matched(i) for i in range(60)], told)
    assert largest_step(out, LEFT_HAND) < 0.04
    assert np.linalg.norm(grip(out[-1]) - told[-1].positions[LEFT_HAND_ROLE]) < 0.01


def test_headset_only() -> None:
    post = stage()
    for i in range(30):
        t = trackers(i, (0.05, 0.0, 0.0), lost=(LEFT_HAND_ROLE, RIGHT_HAND_ROLE))
        out = post.step(matched(i), t)
    assert np.linalg.norm(headset(out) - t.positions[HEAD_ROLE]) < 0.002
    assert out.rotations[LEFT_LOWER_ARM] == pytest.approx(matched(0).rotations[LEFT_LOWER_ARM])


def test_seated_users_stand_upright_and_never_crouch() -> None:
    post = stage(posture="seated")
    for i in range(60):
        out = post.step(matched(i), trackers(i, (0.0, 0.0, -0.45)))
    assert room(out)[0][HEAD, 2] == pytest.approx(SKELETON.head_height, abs=0.02)
    low = stage()
    for i in range(60):
        out = low.step(matched(i), trackers(i, (0.0, 0.0, -0.45)))
    assert room(out)[0][HEAD, 2] < SKELETON.head_height - 0.4


def test_the_head_stays_on_the_headset_and_the_hips_near_the_waist_tracker() -> None:
    post = stage()
    for i in range(60):
        t = trackers(i, (0.05, 0.0, -0.1))
        t.state[[WAIST_ROLE, LEFT_FOOT_ROLE]] = TRACKED
        t.positions[WAIST_ROLE] = REST[HIPS] + (-0.1, 0.02, -0.1)
        t.rotations[WAIST_ROLE] = rot.from_yaw(0.3)
        t.positions[LEFT_FOOT_ROLE] = REST[LEFT_FOOT] + (0.2, 0.1, 0.1)
        out = post.step(matched(i), t)
    p, q = room(out)
    assert p[HIPS] == pytest.approx(t.positions[WAIST_ROLE], abs=0.015)
    assert abs(float(q[HIPS] @ t.rotations[WAIST_ROLE])) == pytest.approx(1.0, abs=2e-3)
    assert p[LEFT_FOOT] == pytest.approx(t.positions[LEFT_FOOT_ROLE], abs=0.005)
    assert np.linalg.norm(headset(out) - t.positions[HEAD_ROLE]) < 0.001
    assert not out.locked[0]


def test_a_tracker_without_a_measured_mounting_is_not_used() -> None:
    post = stage()
    post.set_calibration(from_skeleton(SKELETON))
    t = trackers(0)
    t.state[WAIST_ROLE], t.positions[WAIST_ROLE] = TRACKED, (3.0, 0.0, 0.0)
    p, _ = room(post.step(matched(0), t))
    assert p[HIPS] == pytest.approx(REST[HIPS], abs=0.02)


def test_a_chest_and_a_knee_tracker_bend_the_body() -> None:
    post = stage()
    for i in range(60):
        t = trackers(i, (0.25, 0.0, -0.1))  # bows
        t.state[[CHEST_ROLE, LEFT_KNEE_ROLE, LEFT_FOOT_ROLE]] = TRACKED
        t.positions[CHEST_ROLE] = REST[UPPER_CHEST] + (0.12, 0.0, -0.08)
        t.rotations[CHEST_ROLE] = rot.exp(np.array([0.0, 0.5, 0.0]))
        t.positions[LEFT_FOOT_ROLE] = REST[LEFT_FOOT] + (0.0, 0.0, 0.25)
        t.positions[LEFT_KNEE_ROLE] = REST[LEFT_LOWER_LEG] + (0.0, 0.3, 0.1)  # the knee points to the left
        out = post.step(matched(i), t)
    p, q = room(out)
    assert p[UPPER_CHEST] == pytest.approx(t.positions[CHEST_ROLE], abs=0.05)
    assert abs(float(q[UPPER_CHEST] @ t.rotations[CHEST_ROLE])) > math.cos(0.1)
    assert p[LEFT_LOWER_LEG, 1] > REST[LEFT_LOWER_LEG, 1] + 0.1
    assert np.linalg.norm(headset(out) - t.positions[HEAD_ROLE]) < 0.001


def test_tremble_of_a_body_tracker_is_halved_and_motion_is_not_delayed() -> None:
    """A foot that swings like a walker's, with 1 mm of noise; the delay is that of the best correlation."""
    rng = np.random.default_rng(0)
    dt = STEP_NS * 1e-9
    time = np.arange(int(4 / dt)) * dt
    true = np.zeros((len(time), 3))
    true[:, 0] = 0.4 * np.sin(2 * np.pi * 0.9 * time)
    noisy = true + 0.001 * rng.normal(size=true.shape)
    hold, got = make_hold(), []
    seen = np.zeros(R, np.uint8)
    seen[LEFT_FOOT_ROLE] = 1
    for row in noisy:
        p, q = np.zeros((R, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (R, 1))
        p[LEFT_FOOT_ROLE] = row
        calm(hold, p, q, seen, dt)
        got.append(p[LEFT_FOOT_ROLE])
    out = np.array(got)
    jerk = [np.abs(np.diff(a[:, 2], n=3)).mean() for a in (noisy, out)]
    assert jerk[1] < 0.6 * jerk[0]
    lags = np.arange(-0.01, 0.04, 0.001)
    errors = [np.abs(np.interp(time - lag, time, true[:, 0]) - out[:, 0])[50:-50].mean() for lag in lags]
    assert abs(lags[int(np.argmin(errors))]) <= 0.01


def test_feet_that_both_wear_trackers_are_never_held() -> None:
    """Neither foot has contact in the data, so each could wait for the other forever."""
    post = stage()
    for i in range(180):
        t = trackers(i)
        t.state[[LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE]] = TRACKED
        t.positions[LEFT_FOOT_ROLE] = REST[LEFT_FOOT] + ((0.1, 0.0, 0.0) if i > 60 else 0.0)
        t.positions[RIGHT_FOOT_ROLE] = REST[RIGHT_FOOT]
        out = post.step(matched(i), t)
    p, _ = room(out)
    assert not out.locked.any()
    assert np.linalg.norm(p[LEFT_FOOT] - t.positions[LEFT_FOOT_ROLE]) < 0.02


def jump_run(kind: str, at: tuple[int, ...]) -> np.ndarray:
    """Hips and hands of a swaying body whose motion changes at each jump."""
    post, path = stage(blend=kind, head=False, hands=False, foot_lock=False), []
    for i in range(120):
        segment = sum(i >= a for a in at)
        t, sway = i * STEP_NS * 1e-9, (0.0, 0.08, -0.05)[segment]
        a = matched(i, segment=segment)
        turn = 0.5 * segment + sway * math.sin(5 * t) * 4
        a.rotations[LEFT_UPPER_ARM] = rot.exp(np.array([-1.2 + turn, 0.0, 0.2 * segment]))
        a.angular_velocities[LEFT_UPPER_ARM, 0] = sway * 20 * math.cos(5 * t)
        a.positions[HIPS, 1] += sway * math.sin(5 * t)
        a.velocities[HIPS, 1] = sway * 5 * math.cos(5 * t)
        p = room(post.step(a))[0]
        path.append(p[[HIPS, LEFT_HAND]])
    return np.array(path)


@pytest.mark.parametrize("at", [(60,), (60, 66)])
def test_a_jump_shows_in_neither_place_nor_velocity(at: tuple[int, ...]) -> None:
    path = jump_run("spring", at)
    step = np.diff(path, axis=0)
    assert np.linalg.norm(step, axis=-1).max() < 0.06  # the arm itself would jump by 0.3 m
    change = np.linalg.norm(np.diff(step, axis=0), axis=-1)[:, 0] / (STEP_NS * 1e-9)
    assert change.max() < 0.3  # m/s of the hips from one frame to the next; a bare jump makes 10 m/s


def test_the_quintic_is_over_after_its_blend_time() -> None:
    post = stage(blend="quintic", blend_time=0.2, head=False, hands=False)
    for i in range(40):
        a = matched(i, segment=int(i >= 10))
        if i >= 10:
            a.rotations[LEFT_UPPER_ARM] = rot.exp(np.array([-0.5, 0.0, 0.0]))
        out = post.step(a)
        same = abs(float(out.rotations[LEFT_UPPER_ARM] @ a.rotations[LEFT_UPPER_ARM])) > 1 - 1e-6
        assert same == (i < 10 or i >= 10 + 18) or 20 < i < 28


def test_the_root_that_changes_its_speed_at_a_jump_does_not_jerk_the_hips() -> None:
    post, path, x = stage(head=False, hands=False), [], 0.0
    for i in range(120):
        x += (1.5 if i < 60 else 0.5) * STEP_NS * 1e-9
        path.append(room(post.step(matched(i, (x, 0.0, 0.0), contact=False, segment=int(i >= 60))))[0][HIPS, 0])
    speed = np.diff(path) / (STEP_NS * 1e-9)
    assert np.abs(np.diff(speed)).max() < 0.3  # of 1 m/s


def test_a_late_sample_gets_the_last_pose() -> None:
    post = stage()
    post.step(matched(0), trackers(0))
    out = post.step(matched(5), trackers(5))
    assert post.step(matched(5), trackers(5)) is out
    assert post.step(matched(3), trackers(3)) is out


def test_a_gap_is_blended_not_integrated() -> None:
    post = stage(head=False, hands=False)
    for i in range(10):
        a = matched(i)
        before = post.step(a)
    later = matched(10 + 90)
    later.rotations[LEFT_UPPER_ARM] = rot.exp(np.array([0.3, 0.0, 0.0]))
    out = post.step(later)
    assert abs(float(out.rotations[LEFT_UPPER_ARM] @ before.rotations[LEFT_UPPER_ARM])) == pytest.approx(1.0, abs=1e-5)


def test_a_new_epoch_forgets_and_a_re_centre_carries() -> None:
    move = np.array([5.0, -3.0, 0.0, *rot.from_yaw(1.0)])
    post = stage()
    for i in range(20):
        old = post.step(matched(i), trackers(i))
    there = matched(20, (5.0, -3.0, 1.0), epoch=1)
    t = trackers(20)
    t.epoch, t.new_from_old = 1, move
    t.positions[:3] = rot.rotate(move[3:], t.positions[:3]) + move[:3]
    t.rotations[:3] = rot.multiply(move[3:], t.rotations[:3])
    new = post.step(there, t)
    assert new.locked.all()
    assert room(new)[0] == pytest.approx(rot.rotate(move[3:], room(old)[0]) + move[:3], abs=2e-3)
    fresh = post.step(matched(21, (9.0, 0.0, 0.0), epoch=2), None)
    assert room(fresh)[0][LEFT_TOES, 0] == pytest.approx(9.13, abs=0.05)


def test_travel_by_stick_makes_the_feet_step_one_by_one() -> None:
    post, locked, toes = stage(), [], []
    for i in range(180):
        x = min(i * 0.01, 1.0)
        t = trackers(i, (x, 0.0, 0.0))
        out = post.step(matched(i, (x, 0.0, 0.0)), t)
        locked.append(out.locked.copy())
        toes.append(room(out)[0][[LEFT_TOES, RIGHT_TOES]])
    assert np.linalg.norm(headset(out) - t.positions[HEAD_ROLE]) < 0.005
    toes = np.array(toes)
    assert toes[:, :, 2].max() > 0.04  # lifted
    assert np.abs(toes[-1, :, 0] - 1.13).max() < 0.25
    assert np.any(locked, axis=1).mean() > 0.5


@pytest.mark.parametrize("bad", ["nan position", "nan rotation", "zero quaternion", "infinite"])
def test_a_bad_tracker_counts_as_lost(bad: str) -> None:
    post = stage()
    for i in range(40):
        t = trackers(i)
        if i >= 10:
            if bad == "nan position":
                t.positions[LEFT_HAND_ROLE] = np.nan
            elif bad == "nan rotation":
                t.rotations[HEAD_ROLE] = np.nan
            elif bad == "zero quaternion":
                t.rotations[:] = 0.0
            else:
                t.positions[HEAD_ROLE, 2] = np.inf
        out = post.step(matched(i), t)
        for a in (out.positions, out.rotations, out.velocities, out.angular_velocities, out.root):
            assert np.isfinite(a).all()


def test_a_matched_pose_with_nan_gets_a_sentence() -> None:
    a = matched(0)
    a.rotations[5] = np.nan
    with pytest.raises(MmRosError, match="not finite"):
        stage().step(a)


def test_a_calibration_without_a_rotation_gets_a_sentence() -> None:
    with pytest.raises(MmRosError, match="unit quaternions"):
        PostStage(PostSettings(), SKELETON, Calibration(headset_in_head=np.zeros(7)))


def test_velocities_are_those_of_the_published_pose() -> None:
    post = stage()
    out = [post.step(matched(i), trackers(i, (0.0, 0.05 * math.sin(i * 0.1), -0.05))) for i in range(40)]
    dt = STEP_NS * 1e-9
    assert out[-1].velocities[HIPS] == pytest.approx((out[-1].positions[HIPS] - out[-2].positions[HIPS]) / dt, abs=1e-4)


def test_root_and_feet_follow_uneven_ground() -> None:
    def floor(x: float, _y: float) -> float:
        return 0.2 * min(max((x - 1.8) / 0.2, 0.0), 1.0)  # a ramp up to 0.2 m

    post = PostStage(PostSettings(head=False, hands=False), SKELETON, CALIBRATION, floor)
    for i in range(300):
        x = min(i * 0.012, 3.0)
        out = post.step(matched(i, (x, 0.0, 0.0), contact=i > 255))
        p = room(out)[0]
        for toe in (LEFT_TOES, RIGHT_TOES):
            assert p[toe, 2] > floor(*p[toe, :2]) - 0.02
    assert out.root[2] == pytest.approx(0.2, abs=0.01)
    assert p[[LEFT_TOES, RIGHT_TOES], 2] == pytest.approx(0.215, abs=0.01)


def test_settings_may_change_while_it_runs() -> None:
    post = stage()
    for i in range(10):
        post.step(matched(i), trackers(i, (0.1, 0.0, 0.0)))
    post.settings = PostSettings(head=False)
    for i in range(10, 60):
        out = post.step(matched(i), trackers(i, (0.1, 0.0, 0.0)))
    assert room(out)[0][HEAD] == pytest.approx(room(matched(0))[0][HEAD], abs=1e-3)


def test_steps_are_repeatable_and_leave_nothing_behind() -> None:
    post = stage()

    def once() -> np.ndarray:
        post.reset()
        out = [post.step(matched(i, segment=i // 7), trackers(i, (0.001 * i, 0.0, 0.0))) for i in range(30)]
        return np.array([p.rotations for p in out])

    assert np.array_equal(once(), once())
