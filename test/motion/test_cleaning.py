"""Resampling, mirroring, virtual root, contacts, pinned feet."""

from dataclasses import replace

import numpy as np
import pytest
from bvh_dialects import walk, walks
from scipy.signal import savgol_filter

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import (  # fmt: skip
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_TOES,
    LEFT_UPPER_LEG,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_TOES,
    RIGHT_UPPER_LEG,
    J,
    Skeleton,
    default_skeleton,
)
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import continuous, cubic, odd_window, savitzky_golay, spherical
from mm_ros.motion.bands import band_index, bands_of_frames, find_bands
from mm_ros.motion.cleaning.clips import (  # fmt: skip
    RootSettings,
    facing_yaw,
    mirror,
    resample,
    sample_times,
    with_virtual_root,
)
from mm_ros.motion.cleaning.legs import feet_figures, onto_skeleton, plant_feet, with_toes_at
from mm_ros.motion.cleaning.markers import mended
from mm_ros.motion.contacts import contacts_of, median_filter, stances
from mm_ros.motion.kinds import KINDS, kinds_of


@pytest.mark.parametrize("window", [5, 31, 61])
def test_savitzky_golay_is_scipys(window: int):
    values = np.random.default_rng(1).normal(size=(120, 2)).cumsum(axis=0)
    assert savitzky_golay(values, window) == pytest.approx(
        savgol_filter(values, window, 3, axis=0, mode="interp"), abs=1e-9
    )


def test_savitzky_golay_leaves_a_cubic_alone_and_short_clips_too():
    t = np.linspace(-1, 1, 80)
    assert savitzky_golay(t**3 - t, 31) == pytest.approx(t**3 - t, abs=1e-10)
    assert savitzky_golay(np.array([1.0, 5, 2]), 31).tolist() == [1, 5, 2]
    assert len(savitzky_golay(np.arange(10.0), 61)) == 10


def test_windows_of_karst_at_60_hz():
    s = RootSettings()
    assert (odd_window(s.position_window_s, 60), odd_window(s.direction_window_s, 60), s.order) == (31, 61, 3)
    assert odd_window(s.position_window_s, 120) in (61, 63)


def smooth_motion(rate: float) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(round(2 * rate) + 1) / rate
    v = np.stack([np.sin(2 * t), t**2 / 2, np.cos(3 * t)], axis=1)
    return v, rot.exp(v * 0.8)


@pytest.mark.parametrize("rate", [50, 90, 100, 120])
def test_two_rates_of_the_same_motion_give_the_same_result(rate: float):
    truth, rotations = smooth_motion(60)
    v, q = smooth_motion(rate)
    at = sample_times(len(v), rate, 60)
    assert cubic(v, at)[:120] == pytest.approx(truth[:120], abs=1e-3)
    away = rot.log(rot.multiply(rot.inverse(spherical(q, at)[:120]), rotations[:120]))
    assert np.abs(away).max() < 2e-3


def test_every_second_frame_is_taken_exactly():
    v, q = smooth_motion(120)
    at = sample_times(len(v), 120, 60)
    assert cubic(v, at) == pytest.approx(v[::2], abs=1e-12)
    assert np.abs((spherical(q, at) * q[::2]).sum(-1)) == pytest.approx(1)


def test_the_other_cover_of_a_quaternion_changes_nothing():
    _, q = smooth_motion(60)
    flipped = q * np.where(np.arange(len(q)) % 3 == 0, -1, 1)[:, None]
    at = sample_times(len(q), 60, 90)
    assert np.abs((spherical(flipped, at) * spherical(q, at)).sum(-1)) == pytest.approx(1)
    assert (np.diff(continuous(flipped), axis=0) ** 2).sum(-1).max() < 0.1


def test_a_single_frame_and_no_rate():
    assert cubic(np.ones((1, 3)), sample_times(1, 30, 60)).shape == (1, 3)
    with pytest.raises(MmRosError, match="expected frames and rates above 0"):
        sample_times(10, 0, 60)


def test_resampling_there_and_back_keeps_the_walk():
    clip = walk()
    again = resample(resample(clip, 120), 60)
    assert np.abs(again.globals()[0] - clip.globals()[0][: len(again)]).max() < 2e-3


def test_in_the_mirror_the_left_foot_is_the_right_foot():
    clip = walks()["curve 0.6 0.8"]
    other = mirror(clip)
    p, q = clip.globals()
    r, _ = other.globals()
    assert other.positions.shape == clip.positions.shape
    for a, b in ((LEFT_FOOT, RIGHT_FOOT), (LEFT_HAND, RIGHT_HAND), (HIPS, HIPS)):
        assert np.abs(r[:, a] - p[:, b] * [1, -1, 1]).max() < 1e-4
    assert contacts_of(other)[:, 0].tolist() == contacts_of(clip)[:, 1].tolist()
    turned = np.unwrap(rot.yaw_of(q[:, 0]))
    assert np.unwrap(rot.yaw_of(other.rotations[:, 0]))[-1] == pytest.approx(-turned[-1], abs=1e-4)
    assert np.abs(mirror(other).positions - clip.positions).max() == 0


def test_mirrored_tags_change_sides():
    clip = replace(walk(), tags=(("turn_left", 0, 10), ("walk", 0, 5)))
    assert mirror(clip).tags == (("turn_right", 0, 10), ("walk", 0, 5))


def test_a_new_root_leaves_the_body_where_it_is():
    clip = walks()["curve 0.6 0.8"]
    for smooth in (True, False):
        moved = with_virtual_root(clip, RootSettings(smooth=smooth))
        assert np.abs(moved.globals()[0][:, 1:] - clip.globals()[0][:, 1:]).max() < 1e-4
        assert np.abs(moved.positions[:, 0, 2]).max() == 0


def test_the_raw_root_is_under_the_hips_and_faces_with_them():
    moved = with_virtual_root(walk(), RootSettings(smooth=False))
    p, q = moved.globals()
    assert np.abs(p[:, 0, :2] - p[:, HIPS, :2]).max() < 1e-5
    assert np.abs(rot.wrap_angle(rot.yaw_of(q[:, 0]) - facing_yaw(q[:, HIPS]))).max() < 1e-4


def test_facing_does_not_mind_a_pelvis_that_tilts():
    tilt = rot.multiply(rot.from_yaw(0.7), rot.exp(np.array([0.0, 1.2, 0])))
    assert facing_yaw(tilt[None])[0] == pytest.approx(0.7)


def test_the_median_filter_drops_short_flickers():
    flags = np.zeros((40, 1), np.bool_)
    flags[5:8] = flags[20:35] = True
    assert stances(median_filter(flags, 6)[:, 0]) == [(20, 35)]
    assert stances(np.array([True, True, False, True])) == [(0, 2), (3, 4)]
    assert median_filter(flags, 0).tolist() == flags.tolist()


def test_feet_alternate_on_a_walk():
    flags = contacts_of(walk())
    assert 0.5 < flags.mean() < 0.75
    assert 0.1 < flags.all(axis=1).mean() < 0.35  # double support
    assert (~flags).all(axis=1).mean() < 0.1


def slid(clip, metres_a_second: float):
    positions = clip.positions.copy()
    positions[:, 0, 0] += np.arange(len(clip)) * metres_a_second / clip.rate
    return replace(clip, positions=positions.astype(np.float32))


def test_planting_takes_a_slide_out_of_the_stances():
    clip = slid(walk(), 0.06)
    flags = contacts_of(clip)
    before, after = (max(feet_figures(c, flags)["drifts_m"]) for c in (clip, plant_feet(clip, flags)))
    assert before > 0.02 and after < 0.01
    # and elsewhere nothing breaks: no joint jumps
    p = plant_feet(clip, flags).globals()[0]
    assert np.abs(np.diff(p, n=3, axis=0)).max() < 3 * np.abs(np.diff(clip.globals()[0], n=3, axis=0)).max() + 0.01


def test_planting_leaves_planted_feet_alone():
    clip = walk()
    moved = plant_feet(clip, contacts_of(clip)).globals()[0] - clip.globals()[0]
    assert np.abs(moved).max() < 0.04  # toes that roll off are held until the stance is over


def test_longer_legs_walk_farther_and_stand_on_the_floor():
    clip = walk()
    taller = Skeleton((clip.skeleton.offsets * np.float32(1.1)).astype(np.float32))
    moved = onto_skeleton(clip, taller)
    p, r = clip.globals()[0], moved.globals()[0]
    assert np.abs(r[:, 0, :2] - 1.1 * p[:, 0, :2]).max() < 1e-4
    stand = contacts_of(clip)[:, 0]
    rest = taller.rest_positions()[LEFT_TOES, 2]
    assert np.abs(r[stand, LEFT_TOES, 2] - rest).max() < 0.02
    # other proportions: the feet still do what the scaled ones did
    odd = taller.offsets.copy()
    odd[[16, 20]] *= 1.08
    odd[[17, 21]] *= 0.92
    again = onto_skeleton(clip, Skeleton(odd)).globals()[0]
    assert np.abs(again[:, LEFT_TOES, :2] - r[:, LEFT_TOES, :2]).max() < 0.02


def test_kinds_say_what_the_names_say():
    for name, kind in (
        ("walk 1.3", "walk"),
        ("back 0.9", "back"),
        ("side 0.5", "side"),
        ("idle", "idle"),
        ("run 2.5", "run"),
    ):
        kinds, names = kinds_of(walks()[name])
        assert names == KINDS and kinds.shape == (len(walks()[name]),)
        assert names[np.bincount(kinds).argmax()] == kind


def test_bands_lie_between_heaps_of_heights():
    rng = np.random.default_rng(0)
    ratios = np.concatenate([rng.normal(m, 0.008, 3000) for m in (0.70, 0.80, 0.90, 0.975, 1.03)])
    bands = find_bands(ratios)
    assert [b.name for b in bands] == ["crouch", "medium_bend", "slight_bend", "upright", "tip_toe"]
    assert [bands[int(i)].name for i in band_index([0.5, 0.8, 0.91, 1.0, 1.1], bands)] == [
        "crouch", "medium_bend", "slight_bend", "upright", "tip_toe",
    ]  # fmt: skip
    assert bands[0].low == -np.inf and bands[-1].high == np.inf


def test_one_bent_over_on_tiptoe_is_not_upright():
    bands = find_bands(np.random.default_rng(0).uniform(0.6, 1.1, 20_000))
    straight, bent = np.zeros(120), np.full(120, np.radians(40))
    for ratio, torso, name in (
        (0.98, straight, "upright"), (0.98, bent, "slight_bend"),
        (1.05, bent, "slight_bend"), (0.8, bent, "medium_bend"),
    ):  # fmt: skip
        index = bands_of_frames(np.full(120, ratio), torso, 60.0, bands)
        assert {bands[int(i)].name for i in index} == {name}
    rises = np.where(np.arange(120) < 60, 0.0, np.radians(60))  # frames shortly before bending count as bent
    index = bands_of_frames(np.full(120, 0.98), rises, 60.0, bands)
    assert {bands[int(i)].name for i in index[:20]} == {"upright"} and bands[int(index[35])].name == "slight_bend"
    everything = find_bands(np.full(5000, 0.97))
    assert (bands_of_frames(np.full(120, 0.98), bent, 60.0, everything) == 0).all()


def test_a_leg_straightens_no_faster_than_it_can_bend():
    """A toe pinned behind the body lifts the heel without a jump of the knee (plant_feet tripled CMU's pops)."""
    clip = walk()
    p, _ = clip.globals()
    toes = p[:, [LEFT_FOOT + 1, RIGHT_FOOT + 1]].astype(float)
    away = np.zeros_like(toes)
    away[:, 0, 0] = -0.05 * np.sin(np.linspace(0, 6 * np.pi, len(toes)))  # in the room: the leg is pulled straight
    out, _ = with_toes_at(clip, toes + away).globals()
    assert np.abs(out[:, LEFT_FOOT + 1] - toes[:, 0] - away[:, 0]).max() < 0.01
    length = np.linalg.norm(clip.skeleton.offsets[[LEFT_FOOT, LEFT_FOOT - 1]], axis=-1).sum()
    assert np.linalg.norm(out[:, LEFT_FOOT] - out[:, LEFT_UPPER_LEG], axis=-1).max() < 0.9996 * length
    knee = np.linalg.norm(np.diff(out[:, LEFT_FOOT - 1], n=2, axis=0), axis=-1).max() * clip.rate**2
    assert knee < 145


def test_feet_without_length_are_planted_too():
    clip = walk()
    toes = [LEFT_TOES, RIGHT_TOES]
    offsets = clip.skeleton.offsets.copy()
    offsets[toes] = 0.0  # rigs have ankle and toes in one place
    positions = clip.positions.copy()
    positions[:, toes] = 0.0
    clip = mended(replace(clip, skeleton=Skeleton(offsets, clip.skeleton.names), positions=positions))
    desired = clip.globals()[0][:, toes] + (0.0, 0.0, 0.02)
    out, _ = with_toes_at(clip, desired).globals()
    assert np.abs(out[:, toes] - desired).max() < 1e-3


def test_poor_bands_join_their_neighbours():
    bands = find_bands(np.full(5000, 0.97))
    assert [b.name for b in bands] == ["upright"]


def test_a_straight_leg_bends_at_its_hinge_when_it_is_made_longer():
    """CMU 91_01: the knee is exactly straight, and rounding determined its plane, up to 90 degrees wrong."""
    skeleton = default_skeleton()
    legs = skeleton.offsets.copy()
    legs[[LEFT_UPPER_LEG + 1, RIGHT_UPPER_LEG + 1, LEFT_FOOT, RIGHT_FOOT], 2] *= 0.88
    short = Skeleton(legs)
    frames, rng = 40, np.random.default_rng(0)
    positions = np.broadcast_to(short.offsets, (frames, J, 3)).copy()
    positions[:, 0] = 0
    rotations = np.zeros((frames, J, 4), np.float32)
    rotations[..., 0] = 1
    lean = rot.exp(np.stack([0 * np.arange(frames), rng.uniform(-0.4, 0.4, frames), 0 * np.arange(frames)], 1))
    rotations[:, LEFT_UPPER_LEG] = rotations[:, RIGHT_UPPER_LEG] = lean
    clip = Clip("straight", 60.0, short, positions, rotations)
    p, q = clip.globals()
    toes = p[:, [LEFT_TOES, RIGHT_TOES]].astype(np.float64)
    toes[..., 2] += 0.02  # lifted: the knees have to bend
    p, q = with_toes_at(clip, toes).globals()
    for upper in (LEFT_UPPER_LEG, RIGHT_UPPER_LEG):
        thigh, shin = p[:, upper + 1] - p[:, upper], p[:, upper + 2] - p[:, upper + 1]
        hinge = np.cross(shin, thigh)
        bend = np.linalg.norm(hinge, axis=1) / np.linalg.norm(thigh, axis=1) / np.linalg.norm(shin, axis=1)
        assert bend.min() > np.sin(np.radians(10))
        axis = rot.rotate(q[:, upper].astype(np.float64), np.broadcast_to([0.0, 1.0, 0.0], hinge.shape))
        off = np.degrees(np.arccos(np.clip(np.abs((axis * hinge).sum(1)) / np.linalg.norm(hinge, axis=1), 0, 1)))
        assert off.max() < 3
        assert (np.cross(thigh, shin) @ np.array([0, 1.0, 0]) > 0).all()  # to the front, as knees do
