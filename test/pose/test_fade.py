"""After a restart the pose fades in from where it was, or it is declared new by another `run`."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from test_postprocess import CALIBRATION, SKELETON, Vec, matched, room, trackers

from mm_ros.body.types import AvatarPose
from mm_ros.pose.postprocess import PostSettings, PostStage

LEAP_M = 0.3


def poses(stage: PostStage, numbers: range, root: Vec = (0.0, 0.0, 0.0), move: Vec = (0.0, 0.0, 0.0), run: int = 1):
    return [stage.step(matched(i, root, run=run), trackers(i, move)) for i in numbers]


def stage(former: AvatarPose | None = None) -> PostStage:
    return PostStage(PostSettings(), SKELETON, CALIBRATION, former=former)


def leap(a: AvatarPose, b: AvatarPose) -> float:
    """Largest distance [m] that a joint moves from one pose to the next."""
    return float(np.linalg.norm(room(b)[0] - room(a)[0], axis=1).max())


@pytest.mark.parametrize("place", [(0.0, 0.0, 0.0), (0.6, -0.5, 2.0)])
def test_within_reach_a_new_stage_fades_in_from_the_last_pose_of_the_former_one(place: Vec) -> None:
    former = poses(stage(), range(30))[-1]
    move = (place[0], place[1], 0.0)
    out = poses(stage(former), range(300, 400), place, move)
    assert leap(former, out[0]) < 1e-3
    assert max(leap(a, b) for a, b in pairwise(out)) < LEAP_M / 3
    alone = poses(stage(), range(300, 400), place, move)
    assert leap(out[-1], alone[-1]) < 0.01
    assert {pose.run for pose in out} == {1}


def test_a_new_stage_stays_at_the_pose_of_the_former_one_while_it_waits_and_then_fades() -> None:
    """A listener that joins at any time during the wait sees no leap, though the user walks on meanwhile."""
    former = poses(stage(), range(30))[-1]
    post = stage(former)
    waiting = [post.step(matched(300 + i, (0.008 * i, 0, 0), run=1), trackers(300 + i), wait=True) for i in range(90)]
    assert max(leap(former, pose) for pose in waiting) < 1e-3
    out = poses(post, range(390, 490), (0.72, 0.0, 0.0), (0.72, 0.0, 0.0))
    assert max(leap(a, b) for a, b in pairwise([former, *out])) < LEAP_M / 3
    assert out[-1].root[0] == pytest.approx(0.72, abs=0.01)
    assert {pose.run for pose in (*waiting, *out)} == {1}


def test_a_user_who_leaves_reach_during_the_wait_is_declared_new() -> None:
    former = poses(stage(), range(30))[-1]
    post = stage(former)
    out = [post.step(matched(300 + i, (0.02 * i, 0, 0), run=1), trackers(300 + i), wait=True) for i in range(90)]
    runs = [pose.run for pose in out]
    first = runs.index(runs[-1])
    assert runs[0] == 1 and runs[-1] != 1 and len(set(runs)) == 2
    assert max(leap(former, pose) for pose in out[:first]) < 1e-3
    assert out[first].root[0] == pytest.approx(0.02 * first)


def test_what_is_declared_new_has_another_run_and_fades_nevertheless() -> None:
    former = poses(stage(), range(30))[-1]
    post = stage(former)
    post.declare()
    out = poses(post, range(300, 340), (0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert leap(former, out[0]) < 1e-3
    assert out[0].run != 1 and len({pose.run for pose in out}) == 1


def test_beyond_reach_a_new_stage_appears_at_once_and_declares_it_by_another_run() -> None:
    former = poses(stage(), range(30))[-1]
    out = poses(stage(former), range(300, 310), (4.0, 0.0, 0.0), (4.0, 0.0, 0.0))
    assert out[0].root[0] == pytest.approx(4.0)
    assert out[0].run != 1 and len({pose.run for pose in out}) == 1


@pytest.mark.parametrize(("x", "declared"), [(0.8, False), (3.0, True)])
def test_a_leap_of_the_matcher_fades_within_reach_and_is_declared_beyond(x: float, declared: bool) -> None:
    post = stage()
    before = poses(post, range(30))
    after = poses(post, range(30, 60), (x, 0.0, 0.0), (x, 0.0, 0.0))
    leaps = [leap(a, b) for a, b in pairwise([before[-1], *after])]
    assert (max(leaps) > LEAP_M) == declared == (after[0].run != before[-1].run)


@pytest.mark.parametrize("turn", [0.0, 1.5, 3.0])
def test_after_a_gap_a_listener_that_loses_two_of_three_poses_sees_no_leap(turn: float) -> None:
    """The feet stay with the body, and a user who has turned meanwhile makes the fade slower."""
    post = stage()
    before = [post.step(matched(i, run=1)) for i in range(30)]
    after = [post.step(matched(i, (0.9, 0.0, turn), run=1)) for i in range(300, 450)]
    out = [before[-1], *after]
    assert max(leap(a, b) for a, b in zip(out, out[3:], strict=False)) < 0.7 * LEAP_M
    assert leap(out[-1], matched(0, (0.9, 0.0, turn))) < 0.02


def test_a_body_that_turns_round_within_some_poses_fades() -> None:
    """A tracker source that was started again within half a second may look the other way."""
    post = stage()
    turns = [0.0] * 30 + [3.0 * (1.0 - 0.7**i) for i in range(120)]
    out = [post.step(matched(i, (0.0, 0.0, turn), run=1)) for i, turn in enumerate(turns)]
    assert max(leap(a, b) for a, b in pairwise(out)) < LEAP_M
    assert leap(out[-1], matched(0, (0.0, 0.0, 3.0))) < 0.02


def test_a_matcher_that_was_restarted_within_reach_causes_no_leap() -> None:
    post = stage()
    before = poses(post, range(30))
    after = poses(post, range(300, 340), (0.4, 0.4, 1.0), (0.4, 0.4, 0.0), run=9)
    assert max(leap(a, b) for a, b in pairwise([before[-1], *after])) < LEAP_M / 3
    assert {pose.run for pose in after} == {9}


def test_hands_do_not_leap_after_a_gap() -> None:
    post = stage()
    before = poses(post, range(30))
    after = [post.step(matched(i, run=1), trackers(i, (0.3, 0.3, 0.2))) for i in range(300, 340)]
    assert max(leap(a, b) for a, b in pairwise([before[-1], *after])) < LEAP_M / 2


def test_hands_do_not_leap_when_time_jumps_back() -> None:
    """Late trackers follow a pose that was computed without them."""
    post = stage()
    before = [post.step(matched(i, run=1)) for i in range(100, 130)]
    after = poses(post, range(60, 90))
    assert max(leap(a, b) for a, b in pairwise([before[-1], *after])) < LEAP_M / 2


def test_a_new_epoch_and_a_moved_play_space_do_not_fade() -> None:
    epoch, travel = stage(), stage()
    poses(epoch, range(30)), poses(travel, range(30))
    far = matched(30, (0.8, 0.0, 0.0), epoch=1, run=1)
    assert epoch.step(far, replace(trackers(30, (0.8, 0.0, 0.0)), epoch=1)).root[0] == pytest.approx(0.8)
    moved = trackers(30, (0.8, 0.0, 0.0))
    moved.new_from_old[0] = 0.8
    assert travel.step(matched(30, (0.8, 0.0, 0.0), run=1), moved).root[0] == pytest.approx(0.8)


def test_rates_are_those_of_the_motion() -> None:
    former = poses(stage(), range(30))[-1]
    out = poses(stage(former), range(300, 310), (0.5, 0.0, 0.0), (0.5, 0.0, -0.2))
    assert max(np.abs(pose.velocities).max() for pose in out) < 5.0
