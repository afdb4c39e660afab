"""The estimated feet reach the search, and the avatar's feet stand, move and land with the user's."""

from dataclasses import replace

import numpy as np
import pytest
from toys import desired, toy_database

from mm_ros.body.skeleton import HIPS, LEFT_FOOT, PARENTS, RIGHT_FOOT, default_skeleton
from mm_ros.body.types import AvatarPose, FeetEstimate, rest_pose
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import rotations as rot
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.tracking.calibration import from_skeleton

SKELETON = default_skeleton()
REST = SKELETON.rest_positions().astype(np.float64)
ANKLES = REST[[LEFT_FOOT, RIGHT_FOOT]]
FEET = [LEFT_FOOT, RIGHT_FOOT]


def user(ankles: np.ndarray = ANKLES, moves: tuple[float, float] = (0.0, 0.0), sigma: float = 0.02) -> FeetEstimate:
    m = np.array(moves)
    return FeetEstimate(np.column_stack([1 - m, np.zeros(2), m, ankles, np.zeros((2, 3)), np.full(2, sigma)]))


def query_of(feet: FeetEstimate | None, **settings):
    stage = MatcherStage(MatcherSettings(**settings), toy_database())
    _, match = stage.step(replace(desired(1.0), feet=feet))
    layout = stage.database.layout
    values = match.query * stage.database.feature_std + stage.database.feature_mean
    return {name: values[at] for name, at in layout.offsets.items()}, {
        name: match.weights[at] for name, at in layout.offsets.items()
    }


def test_the_query_holds_the_feet_of_the_user() -> None:
    place = ANKLES + np.array([0.3, 0.05, 0.02])
    values, weights = query_of(user(place, sigma=1e-4), feet_weight=5.0)
    assert values["left_foot_position"] == pytest.approx(place[0], abs=1e-3)
    assert values["right_foot_position"] == pytest.approx(place[1], abs=1e-3)
    _, usual = query_of(None)
    assert weights["left_foot_position"] == pytest.approx(5 * usual["left_foot_position"], rel=1e-3)


def test_an_unknown_foot_leaves_the_search_as_it_is() -> None:
    own, usual = query_of(None)
    values, weights = query_of(user(ANKLES + 1.0, sigma=50.0))
    for name in own:
        assert values[name] == pytest.approx(own[name], abs=1e-2)
        assert weights[name] == pytest.approx(usual[name], rel=1e-2)


def play(poses: list[AvatarPose], **settings) -> np.ndarray:
    """Ankles (F, 2, 3) of the published poses."""
    stage, out = PostStage(PostSettings(**settings), SKELETON, from_skeleton(SKELETON)), []
    for pose in poses:
        made = stage.step(pose)
        p, q = made.positions.astype(np.float64), made.rotations.astype(np.float64)
        p[0], q[0] = made.root[:3], made.root[3:]
        out.append(rot.forward_kinematics(PARENTS, p[None], q[None])[0][0, FEET])
    return np.array(out)


def standing(i: int, feet: FeetEstimate | None, lift: float = 0.0, contact: bool = True) -> AvatarPose:
    """The rest pose; `lift` bends hip and knee of both legs [rad], which raises the feet."""
    pose = rest_pose(SKELETON, 1_000_000_000 + i * 11_111_111)
    for hip, knee, foot in ((15, 16, 17), (19, 20, 21)):
        for joint, angle in ((hip, -lift), (knee, 2 * lift), (foot, -lift)):
            pose.rotations[joint] = rot.exp(np.array([0.0, angle + (0.2 if joint == knee else -0.1), 0.0]))
    return replace(pose, feet=feet, contacts=np.array([contact, contact]))


def stepping_clip(feet: FeetEstimate | None) -> list[AvatarPose]:
    """Half a second of standing; then the played motion lifts both feet three times."""
    lift = [0.7 * max(np.sin(2 * np.pi * (i - 45) / 40), 0.0) if i > 45 else 0.0 for i in range(165)]
    return [standing(i, feet, a, a == 0.0) for i, a in enumerate(lift)]


def test_feet_of_a_standing_user_stand_whatever_the_motion_does() -> None:
    moved = np.ptp(play(stepping_clip(user()))[45:], axis=0).max()
    assert np.ptp(play(stepping_clip(user()), hold_feet=False, follow_feet=0.0)[45:], axis=0).max() > 0.03
    assert moved < 0.015


def test_a_foot_follows_the_step_of_the_user_that_the_motion_lacks() -> None:
    def place(i: int) -> FeetEstimate:
        share = min(max((i - 60) / 30, 0.0), 1.0)
        there = ANKLES.copy()
        there[0] += [0.25 * share, 0.0, 0.08 * np.sin(np.pi * share)]
        return user(there, (float(0 < share < 1), 0.0))

    ankles = play([standing(i, place(i)) for i in range(140)])
    assert ankles[-1, 0, 0] - ankles[50, 0, 0] == pytest.approx(0.25, abs=0.04)
    assert np.abs(ankles[-1, 1] - ankles[50, 1]).max() < 0.01
    assert ankles[:, 0, 2].max() > ANKLES[0, 2] + 0.02
    assert np.abs(np.diff(ankles[:, 0], 2, axis=0)).max() < 0.02  # no pop


def test_the_likelier_foot_supports_the_body_between_two_steps_but_not_in_a_flight() -> None:
    def contacts(left: float, right: float) -> list[bool]:
        stage = PostStage(PostSettings(), SKELETON, from_skeleton(SKELETON))
        feet = user(moves=(0.95, 0.95))
        feet.contact[:] = left, right
        for i in range(40):
            pose = stage.step(standing(i, feet))
        return pose.contacts.tolist()

    assert contacts(0.3, 0.2) == [True, False]
    assert contacts(0.2, 0.3) == [False, True]
    assert contacts(0.02, 0.03) == [False, False]


def test_a_foot_that_does_not_reach_the_floor_reports_no_contact() -> None:
    stage = PostStage(PostSettings(), SKELETON, from_skeleton(SKELETON))
    for i in range(60):
        pose = standing(i, user())
        if i > 20:
            pose.positions[HIPS, 2] += 0.3
        contacts = stage.step(pose).contacts.tolist()
        assert contacts == [i <= 20] * 2


def test_without_an_estimate_the_played_motion_decides() -> None:
    poses = stepping_clip(None)
    assert np.array_equal(play(poses), play(poses, hold_feet=False, follow_feet=0.0))
