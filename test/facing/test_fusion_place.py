"""Resection of the camera, rejection of other people, and offsets of landmarks relative to the devices."""

from dataclasses import replace

import numpy as np
import pytest
from test_fusion import HARD, LOOK, World

from mm_ros.body.types import Calibration
from mm_ros.facing.camera.offsets import Offsets
from mm_ros.facing.camera.place import Place
from mm_ros.facing.fusion import FusionSettings, FusionStage
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural import make_clips
from mm_ros.tracking.landmark_simulation import COMMON, Sighting
from mm_ros.tracking.simulation import simulate_clip

AT, YAW = np.array([3.0, -1.0]), 2.5


def slope_of(nose, yaw=YAW, at=AT):
    x, y = rot.rotate(rot.from_yaw(-yaw), np.array([*(nose[:2] - at), 0.0]))[:2]
    return float(y / x)


def watched(noses, place=None):
    place = place or Place()
    for nose in noses:
        place.learn(nose, slope_of(nose), 1 / 30, 20.0)
    return place


def walk(seed=0, n=200):
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.normal(size=(n, 2)) * 0.05, axis=0)
    return np.column_stack([steps - steps.mean(0), np.full(n, 1.6)])


# ---- the place


def test_clean_pictures_of_a_walk_give_the_cameras_yaw_exactly():
    yaw, variance = watched(walk()).yaw(YAW + 0.3)
    assert np.degrees(abs(yaw - YAW)) < 0.1
    assert variance < 0.06**2


def test_who_stands_still_does_not_tell_where_the_camera_looks():
    place = watched(np.tile([0.2, 0.1, 1.6], (200, 1)))
    assert place.yaw(0.7)[1] > 1.0
    assert not place.elsewhere(np.array([0.2, 0.1, 1.6]), slope_of(np.array([0.2, 0.1])), YAW)


def test_who_is_seen_a_metre_beside_the_user_is_somebody_else():
    place, user = watched(walk()), np.array([0.1, 0.3, 1.6])
    beside = user + rot.rotate(rot.from_yaw(YAW), np.array([0.0, 1.0, 0.0]))
    assert place.miss(user, slope_of(user), YAW) == pytest.approx(0, abs=0.01)
    assert abs(place.miss(user, slope_of(beside), YAW)) == pytest.approx(1.0, abs=0.2)
    assert place.elsewhere(user, slope_of(beside), YAW) and not place.elsewhere(user, slope_of(user), YAW)


def test_the_place_goes_along_when_the_room_moves_under_the_user():
    noses, turn, shift = walk(), 1.1, np.array([0.5, -2.0, 0.0])
    place = watched(noses)
    place.carry(turn, shift)
    assert np.degrees(abs(rot.wrap_angle(place.yaw(YAW + turn)[0] - YAW - turn))) < 0.1
    moved = rot.rotate(rot.from_yaw(turn), noses[7]) + shift
    assert place.miss(moved, slope_of(noses[7]), YAW + turn) == pytest.approx(0, abs=0.05)


def test_pictures_of_somebody_else_do_not_go_through_one_place():
    place = Place()
    for nose, other in zip(walk(1), walk(2), strict=True):
        place.learn(nose * (5, 5, 1), slope_of(other * (5, 5, 1)), 1 / 30, 20.0)
    assert place.scattered(YAW)


# ---- the offsets


def test_offsets_are_found_but_for_a_common_shift():
    """A common shift of all three points cannot be observed, so only differences are compared."""
    rng = np.random.default_rng(0)
    true, offsets = np.array([[0.05, 0, 0.02], [-0.04, 0.03, 0], [0, -0.05, 0.04]]), Offsets()
    for _ in range(600):
        turned, carried = rot.normalize(rng.normal(size=(3, 4))), rng.normal(size=(3, 3))
        seen = carried + rot.rotate(turned, true) + rng.normal(size=3)
        offsets.learn(turned, carried, seen, np.ones(3), 1e-4, 1 / 30)
    np.testing.assert_allclose(offsets.value, true, atol=0.005)


def test_without_pictures_the_calibration_stands():
    assert not Offsets().value.any()


def test_another_calibration_begins_anew_and_the_same_told_again_does_not():
    stage = FusionStage(calibration=Calibration())
    stage._offsets()
    stage.offsets.value[0, 0] = 0.1
    stage.calibration = Calibration()
    stage._offsets()
    assert stage.offsets.value.any()
    stage.calibration = Calibration(headset_in_head=np.array([0.2, 0, 0, 1, 0, 0, 0.0]))
    stage._offsets()
    assert not stage.offsets.value.any()


# ---- the stage


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    made = [c for c in make_clips(3) if c.name.startswith("wander")]
    return [World(c, LOOK) for c in made[1:3]]


def passing(own, other, lasts_s, period_s=8.0, start_s=6.0):
    """Landmarks in which the camera follows another person for `lasts_s` in each `period_s`."""
    ours = [s for s in own if not _away(s, lasts_s, period_s, start_s)]
    theirs = [s for s in other if _away(s, lasts_s, period_s, start_s)]
    return sorted(ours + theirs, key=lambda s: s.arrives_ns)


def _away(seen: Sighting, lasts_s: float, period_s: float, start_s: float) -> bool:
    t = seen.arrives_ns * 1e-9 - start_s
    return t > 0 and t % period_s < lasts_s


@pytest.mark.parametrize("lasts_s", [1.0, 2.0])
def test_people_passing_do_no_harm(worlds, lasts_s):
    fused, network = [], []
    for world, other in zip(worlds, worlds[::-1], strict=True):
        theirs = other.seen(replace(COMMON, seed=9, side=0.1))
        yaw, stage = world.fused(passing(world.seen(COMMON), theirs, lasts_s))
        assert stage.camera.rejected > 20
        fused.append(world.error(yaw))
        network.append(world.error(world.network_yaw))
    assert np.concatenate(fused).mean() < np.concatenate(network).mean() + 1.0


def test_a_field_of_view_told_wrong_by_a_sixth_does_no_harm(worlds):
    world = worlds[0]
    yaw, _ = world.fused(world.seen(COMMON), FusionSettings(field_of_view=1.05 / 1.15))
    assert world.error(yaw).mean() < world.error(world.network_yaw).mean() + 0.5


def test_offsets_matter_when_the_calibration_is_ten_centimetres_off(worlds):
    world, rng = worlds[0], np.random.default_rng(3)
    right, moved = world.calibration, {}
    for name in ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand"):
        way = rng.normal(size=3)
        moved[name] = getattr(right, name) + np.array([*(0.10 * way / np.linalg.norm(way)), 0, 0, 0, 0])
    seen, error = world.seen(COMMON), {}
    try:
        for name, calibration in (("right", right), ("wrong", replace(right, **moved))):
            world.calibration = calibration
            for learn in (False, True):
                yaw, stage = world.fused(seen, FusionSettings(learn_offsets=learn))
                error[name, learn] = world.error(yaw).mean()
                assert stage.offsets.value.any() == learn
    finally:
        world.calibration = right
    assert abs(error["right", True] - error["right", False]) < 0.4  # little to learn
    assert error["wrong", True] < error["wrong", False]
    assert error["wrong", True] < error["right", False] + 0.7


def test_a_waist_tracker_beside_a_bad_camera_is_as_good_as_alone(worlds):
    world = worlds[0]
    worn = simulate_clip(world.clip, replace(LOOK, waist=True))
    frames = [worn.frame(i) for i in range(len(worn))]
    alone, _ = world.fused([], frames=frames)
    both, _ = world.fused(world.seen(HARD), frames=frames)
    late = slice(20 * 90, None)
    assert world.error(both, world.pelvis)[late].mean() < world.error(alone, world.pelvis)[late].mean() + 0.5
