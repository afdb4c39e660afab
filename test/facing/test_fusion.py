"""Fusion of landmarks: alignment is exact on clean points, robust on bad ones, never much worse than the network."""

from dataclasses import replace

import numpy as np
import pytest
from perfect_camera import PERFECT

from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import COUNT, NAMES, SWAPPED
from mm_ros.body.types import BodyOrientation, TrackerFrame
from mm_ros.facing.camera import alignment as la
from mm_ros.facing.filter import FacingFilter
from mm_ros.facing.fusion import FusionSettings, FusionStage
from mm_ros.facing.model_file import load_facing_model
from mm_ros.facing.orientation import OrientationSettings, OrientationStage
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics import facing_of_body, facing_of_pelvis
from mm_ros.motion.procedural import make_clips
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.landmark_simulation import COMMON, Sighting, simulate_landmarks
from mm_ros.tracking.simulation import Simulation, simulate_clip

HARD = replace(COMMON, pitch=float(np.radians(10)), latency_s=0.15, unreported_latency_s=0.15, lost=0.3, flips=0.05)
LOOK = Simulation(look_around_rad=float(np.radians(60)), grip_sd_rad=0.3, noise_m=0.002, noise_rad=0.01, seed=5)


class World:
    """One clip, its trackers, and the network's predictions."""

    def __init__(self, clip: Clip, simulation: Simulation) -> None:
        self.clip, self.track = clip, simulate_clip(clip, simulation)
        self.calibration = from_skeleton(clip.skeleton)
        settings = OrientationSettings()
        stage = OrientationStage(settings, self.calibration, load_facing_model(settings))
        self.network = [stage.step(self.track.frame(i)) for i in range(len(self.track))]
        self.body, self.pelvis = (self._truth(f) for f in (facing_of_body, facing_of_pelvis))

    def _truth(self, facing):
        own = np.unwrap(facing(self.clip.globals()[0].astype(np.float64)))
        return np.interp(self.track.stamps_ns * 1e-9, np.arange(len(own)) / self.clip.rate, own)

    @property
    def network_yaw(self):
        return np.array([f.yaw for f in self.network])

    def fused(self, sightings, settings=None, frames=None):
        """Yaws, and the stage as it is at the end. `frames`: other trackers than the clip's."""
        stage = FusionStage(settings, self.calibration)
        coming, out = list(sightings), []
        for i, predicted in enumerate(self.network):
            frame = self.track.frame(i) if frames is None else frames[i]
            while coming and coming[0].arrives_ns <= frame.stamp_ns:
                stage.watch(coming.pop(0).landmarks)
            out.append(stage.step(frame, predicted))
        return np.array([o.yaw for o in out]), stage

    def seen(self, options):
        return simulate_landmarks(self.clip, options, 0, self.track)

    def error(self, yaw, truth=None):
        return np.degrees(np.abs(rot.wrap_angle(np.asarray(yaw) - (self.body if truth is None else truth))))


def turned_by(yaw):
    return np.degrees(np.abs(rot.wrap_angle(np.diff(yaw))))


@pytest.fixture(scope="module")
def world() -> World:
    """A user who walks around a room for 40 s, looks around and holds the controllers in an unusual way."""
    return World(next(c for c in make_clips(3) if c.name == "wander 1"), LOOK)


# ---- alignment


@pytest.mark.parametrize("pitch", [-0.4, 0.0, 0.2])
def test_clean_points_are_aligned_exactly(pitch):
    rng = np.random.default_rng(1)
    for _ in range(50):
        camera, yaw, shift = rng.normal(size=(3, 3)), rng.uniform(-np.pi, np.pi), rng.normal(size=3)
        room = np.empty((3, 3))
        la.turned(camera, yaw, pitch, room)
        found, *moved = la.align(room + shift, camera, np.array([0.9, 0.5, 1.0]), pitch)
        assert np.degrees(abs(rot.wrap_angle(found - yaw))) < 0.1
        np.testing.assert_allclose(moved, shift, atol=1e-9)


def test_the_pitch_is_found_from_clean_points():
    rng = np.random.default_rng(2)
    camera, room, h = rng.normal(size=(3, 3)), np.empty((3, 3)), np.zeros((3, 3))
    la.turned(camera, 1.0, 0.17, room)
    r, q = np.empty((2, 3, 3))
    la.centred(room, np.ones(3), r)
    la.centred(camera, np.ones(3), q)
    la.add_products(h, r, q, np.ones(3))
    pitch = la.best_pitch(h, -0.9, 0.9)
    assert np.degrees([pitch - 0.17, la.best_yaw(h, pitch) - 1.0]) == pytest.approx([0, 0], abs=0.1)


def test_turned_is_the_rotation_that_its_name_says():
    p = np.random.default_rng(3).normal(size=(4, 3))
    out = np.empty_like(p)
    la.turned(p, 0.7, 0.3, out)
    q = rot.multiply(rot.from_yaw(0.7), rot.exp(np.array([0.0, 0.3, 0.0])))
    np.testing.assert_allclose(out, rot.rotate(q, p), atol=1e-12)


def test_a_point_without_weight_does_not_count():
    rng = np.random.default_rng(4)
    camera, room = rng.normal(size=(3, 3)), np.empty((3, 3))
    la.turned(camera, -2.0, 0.0, room)
    room[1] += 5.0
    assert la.align(room, camera, np.array([1.0, 0.0, 1.0]), 0.0)[0] == pytest.approx(-2.0)


def test_swapping_sides_twice_changes_nothing():
    assert (SWAPPED[SWAPPED] == np.arange(COUNT)).all()
    assert NAMES[SWAPPED[15]] == "right_wrist"


# ---- the filter


def test_without_measurements_the_correction_fades():
    f = FacingFilter(error=0.5)
    for _ in range(900):
        f.predict(1 / 90, 0.1, 2.0, 0.05, 0.4)
    assert 0 < f.error < 0.01
    assert f.p_ee == pytest.approx(0.01, rel=0.01)


def test_two_half_steps_are_one():
    a, b = FacingFilter(0.3, 0.1, 0.05, 0.01, 0.02), FacingFilter(0.3, 0.1, 0.05, 0.01, 0.02)
    a.predict(0.1, 0.2, 2.0, 0.05, 0.4)
    b.predict(0.05, 0.2, 2.0, 0.05, 0.4)
    b.predict(0.05, 0.2, 2.0, 0.05, 0.4)
    assert vars(a) == pytest.approx(vars(b))


def test_it_measures_the_short_way_round():
    f = FacingFilter()
    f.correct(-3.1, 3.1, 0.05)
    assert 0 < f.error < 0.1


def test_one_wild_measurement_moves_it_little():
    f = FacingFilter(p_ee=0.01)
    f.correct(3.0, 0.0, 0.15)
    assert f.error < 0.2


# ---- the stage


def test_without_landmarks_the_networks_answer_passes_untouched(world):
    stage = FusionStage(None, world.calibration)
    for i in range(200):
        predicted = world.network[i]
        assert stage.step(world.track.frame(i), predicted) is predicted


def test_clean_landmarks_find_camera_latency_and_facing(world):
    clean = replace(PERFECT, pitch=0.15, latency_s=0.12, unreported_latency_s=0.09)
    yaw, stage = world.fused(world.seen(clean))
    assert np.degrees(stage.camera.pitch - 0.15) == pytest.approx(0, abs=1.5)
    assert stage.timing.latency_s == pytest.approx(0.09, abs=0.03)
    assert stage.camera.rejected == stage.camera.flipped == 0
    later = slice(450, None)
    assert world.error(yaw)[later].mean() < 0.7 * world.error(world.network_yaw)[later].mean()


def test_common_landmarks_help(world):
    yaw, _ = world.fused(world.seen(COMMON))
    fused, network = world.error(yaw), world.error(world.network_yaw)
    assert fused.mean() < network.mean()  # the network predicts this user well; held-out users: test_fusion_held_out.py
    assert np.percentile(fused, 95) <= np.percentile(network, 95)


def test_bad_landmarks_still_help(world):
    yaw, _ = world.fused(world.seen(HARD))
    assert world.error(yaw).mean() < world.error(world.network_yaw).mean()


@pytest.mark.parametrize("worse", [2.0, 4.0])
def test_no_landmarks_make_it_worse_by_a_degree(world, worse):
    bad = replace(
        COMMON, noise_m=worse * COMMON.noise_m, depth_noise_m=worse * COMMON.depth_noise_m,
        turn_noise=worse * COMMON.turn_noise, flips=0.2,
    )  # fmt: skip
    yaw, _ = world.fused(world.seen(bad))
    assert world.error(yaw).mean() < world.error(world.network_yaw).mean() + 1.0


def test_another_person_misleads_little(world):
    """From 20 s on the camera follows another person in another place: the same clip, 13 s earlier."""
    own, shift = world.seen(COMMON), 13 * 10**9
    cut = 20 * 10**9
    theirs = [
        Sighting(s.arrives_ns + shift, replace(s.landmarks, stamp_ns=s.landmarks.stamp_ns + shift))
        for s in own if cut <= s.arrives_ns + shift
    ]  # fmt: skip
    yaw, stage = world.fused([s for s in own if s.arrives_ns < cut] + theirs)
    assert stage.camera.rejected > 30
    after = world.track.stamps_ns > cut
    assert world.error(yaw)[after].mean() < world.error(world.network_yaw)[after].mean() + 1.0


def test_unplugged_and_back_without_a_jump(world):
    seen = [s for s in world.seen(COMMON) if not 12 < s.arrives_ns * 1e-9 < 22]
    yaw, _ = world.fused(seen)
    moved = np.degrees(np.abs(rot.wrap_angle(np.diff(rot.wrap_angle(yaw - world.network_yaw)))))
    assert moved.max() <= 3.5  # in addition to the turn of the network's own prediction
    away = (world.track.stamps_ns * 1e-9 > 21) & (world.track.stamps_ns * 1e-9 < 22)
    assert world.error(yaw, world.network_yaw)[away].max() < 1.0  # the network alone again
    assert turned_by(yaw).max() <= max(turned_by(world.network_yaw).max() + 3.5, 5.0)


def test_a_snap_turn_carries_the_camera_along(world):
    """The room turns by 90° at 25 s: the landmarks do not change, and the output turns with the prediction."""
    sightings = world.seen(COMMON)
    plain, _ = world.fused(sightings)
    at, turn = 25 * 90, rot.from_yaw(np.pi / 2)
    frames = [world.track.frame(i) for i in range(len(world.track))]
    for i, f in enumerate(frames[at:]):
        f.positions, f.rotations = rot.rotate(turn, f.positions), rot.multiply(turn, f.rotations)
        if i == 0:
            f.new_from_old = np.array([0.0, 0.0, 0.0, *turn])
    stage, coming, out = FusionStage(None, world.calibration), list(sightings), []
    for i, frame in enumerate(frames):
        while coming and coming[0].arrives_ns <= frame.stamp_ns:
            stage.watch(coming.pop(0).landmarks)
        predicted = replace(world.network[i], yaw=world.network[i].yaw + (np.pi / 2 if i >= at else 0.0))
        out.append(stage.step(frame, predicted).yaw)
    turned = rot.wrap_angle(np.array(out) - plain)
    np.testing.assert_allclose(turned[:at], 0, atol=1e-9)
    np.testing.assert_allclose(turned[at:], np.pi / 2, atol=1e-6)


def test_a_camera_that_is_moved_is_found_again(world):
    other = replace(COMMON, side=COMMON.side + 2.0)
    cut = 18 * 10**9
    seen = [s for s in world.seen(COMMON) if s.arrives_ns < cut]
    seen += [s for s in world.seen(other) if s.arrives_ns >= cut]
    yaw, stage = world.fused(seen)
    late = world.track.stamps_ns > 30 * 10**9
    assert stage.camera.known
    assert world.error(yaw)[late].mean() < world.error(world.network_yaw)[late].mean() + 1.0


def test_a_waist_tracker_wins(world):
    """Its mounting rotation is learned."""
    worn = simulate_clip(world.clip, replace(LOOK, waist=True))
    strapped = rot.exp(np.array([0.4, 1.2, -2.0]))
    frames = [worn.frame(i) for i in range(len(worn))]
    for f in frames:
        f.rotations[3] = rot.multiply(f.rotations[3], strapped)
    yaw, _ = world.fused(world.seen(HARD), frames=frames)
    known, _ = world.fused([], FusionSettings(learn_mounting=False), [worn.frame(i) for i in range(len(worn))])
    late = slice(20 * 90, None)
    assert world.error(yaw, world.pelvis)[late].mean() < 0.6 * world.error(world.network_yaw, world.pelvis)[late].mean()
    assert world.error(known, world.pelvis)[90:].mean() < 3.0


def test_feet_trackers_help(world):
    worn = simulate_clip(world.clip, replace(LOOK, feet=True))
    yaw, _ = world.fused([], frames=[worn.frame(i) for i in range(len(worn))])
    assert world.error(yaw).mean() < world.error(world.network_yaw).mean()


def test_landmarks_that_are_not_numbers_are_ignored(world):
    seen = world.seen(COMMON)[:300]
    for s in seen[::2]:
        s.landmarks.positions[5] = np.nan
    yaw, _ = world.fused(seen)
    assert np.isfinite(yaw).all()


def test_a_late_sample_of_the_trackers_changes_nothing(world):
    stage = FusionStage(None, world.calibration)
    for s in world.seen(PERFECT)[:200]:
        stage.watch(s.landmarks)
        i = min(int(s.arrives_ns * 90e-9) + 1, len(world.track) - 1)
        stage.step(world.track.frame(i), world.network[i])
    before = vars(stage._filter).copy()
    stage.step(world.track.frame(i - 3), world.network[i - 3])
    assert vars(stage._filter) == before


def test_the_stage_starts_anew_with_a_new_epoch(world):
    _, stage = world.fused(world.seen(COMMON)[:600])
    assert stage.camera.known
    stage.step(TrackerFrame(10**12, epoch=7), BodyOrientation(10**12, 7, 0.0, 0.0, 0.1, "network"))
    assert not stage.camera.known
