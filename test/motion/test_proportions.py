"""Correction of joints that sit where no person has them, and tags of extreme postures."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import DIALECTS, walk
from toys import desired, joints_in_one_place, toy_database

from mm_ros.body.clip import Clip
from mm_ros.body.proportions import HEAD_OVER_LEG, corrected, proportions_of
from mm_ros.body.skeleton import (
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_UPPER_LEG,
    RIGHT_FOOT,
    RIGHT_LOWER_LEG,
    UPPER_CHEST,
    Skeleton,
    default_skeleton,
)
from mm_ros.body.types import FeetEstimate
from mm_ros.cli.main import main
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import rotations as rot
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.importing.export import to_bvh
from mm_ros.tracking.calibration import avatar_scale, avatar_segments, from_standing_height

LEGS = [HIPS, LEFT_LOWER_LEG, LEFT_FOOT, RIGHT_LOWER_LEG, RIGHT_FOOT]


def changed(bones: list[int], factor: float) -> Skeleton:
    offsets = default_skeleton().offsets.copy()
    offsets[bones] *= np.float32(factor)
    return Skeleton(offsets)


def test_usual_proportions_and_children_stay_as_they_are():
    for skeleton in (default_skeleton(), default_skeleton().scaled(0.6)):
        assert corrected(skeleton) == (skeleton, [])


def test_the_bone_that_cmu_lacks_is_added_and_the_legs_stay():
    wrong = joints_in_one_place(changed([UPPER_CHEST], 0.9))
    right, notes = corrected(wrong)
    assert proportions_of(wrong).head < 1.7
    assert HEAD_OVER_LEG.low <= proportions_of(right).head <= HEAD_OVER_LEG.high
    assert "from chest to neck" in notes[0].why
    np.testing.assert_array_equal(right.offsets[LEGS], wrong.offsets[LEGS])


def test_legs_that_fit_neither_head_nor_arms_are_corrected():
    offsets = changed(LEGS[1:], 1.3).offsets.copy()
    offsets[HIPS, 2] += 0.3 * 0.82
    right, notes = corrected(Skeleton(offsets).scaled(0.9))
    assert right.leg_length == pytest.approx(0.9 * 0.82, rel=0.03) and "legs" in notes[0].why
    assert right.head_height == pytest.approx(0.9 * default_skeleton().head_height, rel=0.02)


def test_short_arms_are_corrected():
    right, notes = corrected(changed([LEFT_LOWER_ARM, LEFT_HAND, LEFT_LOWER_ARM + 4, LEFT_HAND + 4], 0.8))
    assert proportions_of(right).arm == pytest.approx(0.65) and "arms" in notes[0].why


def test_import_reports_the_correction_and_can_leave_it_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    clip = walk()
    wrong = joints_in_one_place(clip.skeleton)
    short = replace(clip, skeleton=wrong, positions=np.where(
        np.arange(len(wrong.offsets))[:, None] > HIPS, wrong.offsets, clip.positions).astype(np.float32))  # fmt: skip
    write_bvh(to_bvh(short, DIALECTS["Xsens"]), tmp_path / "walk_01.bvh")
    heads = {}
    for options in ([], ["--keep-proportions"]):
        assert main(["import", str(tmp_path / "walk_01.bvh"), *options, "--json", str(tmp_path / "i.json")]) == 0
        actor = json.loads((tmp_path / "i.json").read_text())["actors"][0]
        heads[bool(options)] = actor["head_m"] / actor["leg_m"]
        assert ("proportions: corrected" in capsys.readouterr().out) is not bool(options)
    assert heads[True] < 1.75 and 1.83 < heads[False] < 1.98


def kicks() -> Clip:
    """A walk of which the left leg is lifted forward for a second."""
    clip = walk()
    standing = replace(
        clip, positions=np.repeat(clip.positions[:1], 300, 0), rotations=np.repeat(clip.rotations[:1], 300, 0), tags=()
    )
    standing.rotations[120:180, LEFT_UPPER_LEG] = rot.exp(np.array([0.0, -1.4, 0.0]))
    return standing


def test_a_kick_is_tagged_with_the_frames_that_lead_into_it():
    database = build_database([kicks(), walk()], options=BuildOptions(stooped=0.0, plant_feet=False))
    high = (np.asarray(database.tags) & np.uint64(database.tag_bit("high_leg"))) != 0
    assert high[120:180].all() and high[100] and not high[:90].any() and not high[200:].any()
    assert "high_leg" not in build_database([walk()], options=BuildOptions(stooped=0.0)).tag_names


@pytest.fixture(scope="module")
def database():
    """The toy database, whose only standing clip is a kick."""
    toys = toy_database()
    bit = np.uint64(1 << len(toys.tag_names))
    of = toys.clip_names.index("upright_0_0")
    tags = toys.tags.copy()
    tags[toys.range_starts[of] : toys.range_stops[of]] |= bit
    return replace(toys, tags=tags, tag_names=(*toys.tag_names, "high_leg"))


def played(database, feet: FeetEstimate | None = None, tags: str = "") -> set[str]:
    matcher = MatcherStage(MatcherSettings(tags=tags), database)
    return {matcher.step(desired(i / 90, feet=feet))[1].clip for i in range(90)}


def test_a_kick_is_played_only_when_feet_or_query_ask_for_it(database):
    lifted, stands = [0, 0, 1, 0, 0.1, 0.5, 0, 0, 0, 10], [1, 0, 0, 0, -0.1, 0.07, 0, 0, 0, 10]
    asking = FeetEstimate(np.array([lifted, stands], np.float64))
    assert "upright_0_0" not in played(database)
    assert "upright_0_0" in played(database, asking)
    assert played(database, tags="high_leg") == {"upright_0_0"}


def test_a_database_of_earlier_versions_is_fitted_by_legs_and_trunk():
    """The legs, which the head height of such a skeleton would make too long, follow the usual proportions."""
    skeleton, user = joints_in_one_place(default_skeleton()), from_standing_height(1.70)
    database = toy_database(2.0)
    parents = np.arange(len(skeleton.offsets))[:, None] > HIPS
    positions = np.where(parents, skeleton.offsets, database.positions).astype(np.float32)
    stage = MatcherStage(MatcherSettings(), replace(database, skeleton=skeleton, positions=positions))
    stage.set_scale(avatar_scale(user, skeleton), avatar_segments(user, skeleton))
    assert 1.62 / skeleton.head_height * skeleton.leg_length > 0.92
    assert stage.skeleton.head_height == pytest.approx(1.62, abs=1e-3)
    assert stage.skeleton.leg_length == pytest.approx(1.62 / HEAD_OVER_LEG.usual, rel=0.01)
    pose, _ = stage.step(desired(0.0))
    np.testing.assert_allclose(pose.positions[HIPS + 1 :], stage.skeleton.offsets[HIPS + 1 :], atol=1e-5)
