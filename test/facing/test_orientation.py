"""The orientation stage in live use."""

import math
import tracemalloc

import numpy as np
import pytest
from orientation_toys import degrees_apart, frames, walker

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import LOST, Calibration, TrackerFrame
from mm_ros.facing.inputs import layout_hash
from mm_ros.facing.model_file import load_facing_model
from mm_ros.facing.orientation import OrientationSettings, OrientationStage, follow_sequence, heading
from mm_ros.maths import rotations as rot

PREDICTORS = ("network", "paper", "hmd_forward")


@pytest.fixture(scope="module")
def models():
    return {p: load_facing_model(OrientationSettings(predictor=p)) for p in PREDICTORS}


def stage_of(models, predictor="network", **settings):
    return OrientationStage(OrientationSettings(predictor=predictor, **settings), Calibration(), models[predictor])


def yaws(stage, sequence):
    return np.array([stage.step(f).yaw for f in sequence])


def pitched(degrees, yaw=0.7):
    """Nose up is positive."""
    a = -math.radians(degrees) / 2
    return rot.multiply(rot.from_yaw(yaw), np.array([math.cos(a), 0, math.sin(a), 0]))


@pytest.mark.parametrize("pitch", range(-170, 180, 10))
def test_heading_survives_every_pitch(pitch):
    assert heading(pitched(pitch)) == pytest.approx(0.7, abs=1e-9)


def test_heading_is_forward_on_the_floor_unless_steep():
    rng = np.random.default_rng(0)
    for _ in range(200):
        q = rot.multiply(rot.from_yaw(rng.uniform(-3, 3)), rot.exp(rng.uniform(-0.5, 0.5, 3)))
        assert heading(q) == pytest.approx(float(rot.yaw_of(q)), abs=1e-9)
        assert heading(-q) == pytest.approx(heading(q), abs=1e-12)


def test_heading_does_not_jump_while_the_nose_goes_over():
    rolled = rot.exp(np.array([0.15, 0, 0]))
    swept = np.unwrap([heading(rot.multiply(pitched(p), rolled)) for p in np.arange(-130, 131, 0.5)])
    assert np.degrees(np.abs(np.diff(swept))).max() < 3


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_finite_where_the_headset_looks_straight_down(models, predictor):
    stage = stage_of(models, predictor)
    for f in frames(walker(1)):
        f.rotations[0] = pitched(-90)
        out = stage.step(f)
        assert np.isfinite([out.yaw, out.yaw_rate, out.sigma]).all()


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_room_has_no_direction(models, predictor):
    """When all inputs are turned, the output turns with them."""
    motion = walker(2, seed=3)
    a = yaws(stage_of(models, predictor), frames(motion))
    b = yaws(stage_of(models, predictor), frames(motion, turned=2.1))
    assert degrees_apart(a + 2.1, b).max() < 0.01


def test_rates_of_the_headset_agree(models):
    motion = walker(6, seed=1)
    at = np.arange(1.0, 5.5, 0.25)
    found = []
    for rate in (72.0, 90.0, 120.0):
        y = np.unwrap(yaws(stage_of(models), frames(motion, rate)))
        found.append(np.interp(at, np.arange(len(y)) / rate, y))
    assert np.degrees(np.ptp(found, axis=0)).max() < 1.5


def test_a_walker_who_looks_about_is_read_better_than_his_headset(models):
    ours, headset = [], []
    for seed in range(6):
        motion = walker(6, seed=seed)
        sequence = frames(motion)
        truth = np.interp(np.arange(len(sequence)) / 90, np.arange(len(motion)) / 60, motion.yaw)
        ours.append(degrees_apart(yaws(stage_of(models), sequence), truth).mean())
        headset.append(degrees_apart(yaws(stage_of(models, "hmd_forward"), sequence), truth).mean())
    assert np.mean(ours) < 0.75 * np.mean(headset)


def test_a_snap_turn_turns_what_is_remembered(models):
    """When the play space turns within an epoch, the later outputs are those of the turned room."""
    motion = walker(4, seed=2)
    plain, turned = frames(motion), frames(motion, turned=0.8)
    mixed = plain[:150] + turned[150:]
    mixed[150].new_from_old[3:] = rot.from_yaw(0.8)
    a, b = yaws(stage_of(models), mixed), yaws(stage_of(models), plain)
    assert degrees_apart(a[150:], b[150:] + 0.8).max() < 0.01


def test_a_recentre_carries_and_a_new_epoch_forgets(models):
    motion = walker(4, seed=2)
    plain = frames(motion)
    recentred = frames(motion, turned=-1.3, epoch=1)
    recentred[150].new_from_old[3:] = rot.from_yaw(-1.3)
    a, b = yaws(stage_of(models), plain[:150] + recentred[150:]), yaws(stage_of(models), plain)
    assert degrees_apart(a[150:], b[150:] - 1.3).max() < 0.01

    restarted = frames(motion, epoch=1)[150:]
    c = yaws(stage_of(models), plain[:150] + restarted)[150:]
    assert degrees_apart(c, yaws(stage_of(models), restarted)).max() < 1e-9


class Counter:
    """A network that remembers how many ticks there were."""

    layout, tick_s = layout_hash(), 0.0265

    def nothing(self):
        return np.zeros(1, np.float32)

    def step(self, inputs, remembered, tick):
        self.now = remembered + tick
        return np.array([[0.0, 1.0, -2.0, 0.0]], np.float32), self.now


def test_what_the_network_remembers_changes_at_ticks_and_is_cleared_by_a_new_epoch():
    counter = Counter()
    stage = OrientationStage(OrientationSettings(), Calibration(), counter)
    counts = []
    for f in frames(walker(0.5)) + frames(walker(0.2), epoch=1, start_ns=5 * 10**9):
        stage.step(f)
        counts.append(int(counter.now[0]))
    n = len(frames(walker(0.5)))
    assert counts[:n] == [1 + i // 3 for i in range(n)]  # 90 Hz: every third frame
    assert counts[n : n + 4] == [1, 1, 1, 2]


def test_a_snap_turn_leaves_alone_what_the_network_remembers():
    """The state is relative to the heading, so it does not depend on the play space."""
    counter = Counter()
    stage = OrientationStage(OrientationSettings(), Calibration(), counter)
    sequence = frames(walker(0.3))
    sequence[10].new_from_old = np.concatenate([[0.3, 0, 0], rot.from_yaw(0.8)])
    for f in sequence:
        stage.step(f)
    assert counter.now[0] == 1 + (len(sequence) - 1) // 3


def test_time_that_jumps_back_starts_anew_and_duplicates_change_nothing(models):
    sequence = frames(walker(3, seed=4))
    stage = stage_of(models)
    yaws(stage, sequence)
    assert degrees_apart(yaws(stage, sequence), yaws(stage_of(models), sequence)).max() < 1e-9
    doubled = [f for f in sequence for _ in range(2)]
    assert degrees_apart(yaws(stage_of(models), doubled)[::2], yaws(stage_of(models), sequence)).max() < 1e-9


def test_a_gap_is_not_integrated_over(models):
    sequence = frames(walker(8, seed=5))
    stage = stage_of(models)
    before = stage.step(sequence[0]).yaw
    for f in sequence[1:100]:
        before = stage.step(f).yaw
    assert stage.step(sequence[400]).yaw == before


@pytest.mark.parametrize("seed", range(4))
def test_a_wrong_start_is_forgotten_within_half_a_second(models, seed):
    sequence = frames(walker(3, seed=seed))
    right = yaws(stage_of(models), sequence)
    stage = stage_of(models)
    stage.reset(yaw=right[0] + math.pi)
    wrong = yaws(stage, sequence)
    assert degrees_apart(wrong[45:], right[45:]).max() < 5


def test_nothing_turns_by_more_than_ten_degrees_a_frame(models):
    """This also holds when the trackers jump to another room every quarter of a second."""
    sequence = []
    for k, turned in enumerate(np.random.default_rng(0).uniform(-3, 3, 12)):
        sequence += frames(walker(0.3, seed=k), turned=turned, start_ns=10**9 + k * 3 * 10**8)
    y = yaws(stage_of(models), sequence)
    assert np.degrees(np.abs(rot.wrap_angle(np.diff(y)))).max() <= 10


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_lost_hand_says_nothing_by_where_it_lies(models, predictor):
    a, b = frames(walker(2)), frames(walker(2))
    for f, g in zip(a[60:], b[60:], strict=True):
        f.state[1] = g.state[1] = LOST
        g.positions[1], g.rotations[1], g.velocities[1] = 9.0, rot.exp(np.ones(3)), 5.0
    assert (yaws(stage_of(models, predictor), a) == yaws(stage_of(models, predictor), b)).all()


def test_without_hands_the_body_stays_near_the_headset(models):
    """Without hands the facing stays near headset forward, the baseline."""
    for lost, limit in (((1,), 0.22), ((1, 2), 0.17)):
        sequence = frames(walker(8, seed=1))
        for f in sequence:
            f.state[list(lost)] = LOST
        apart = degrees_apart(yaws(stage_of(models), sequence), yaws(stage_of(models, "hmd_forward"), sequence))
        assert apart.mean() < np.degrees(limit) + 2


def test_a_short_loss_of_a_hand_is_bridged(models):
    a, b = frames(walker(6, seed=1)), frames(walker(6, seed=1))
    for f in b[300:327]:
        f.state[1] = LOST
    assert degrees_apart(yaws(stage_of(models), a), yaws(stage_of(models), b)).max() < 25


def test_without_a_headset_the_facing_holds_and_doubts(models):
    sequence = frames(walker(2))
    stage = stage_of(models)
    seen = [stage.step(f) for f in sequence[:90]]
    for f in sequence[90:]:
        f.state[0] = LOST
        out = stage.step(f)
        assert (out.yaw, out.yaw_rate) == (seen[-1].yaw, 0.0)
    assert out.sigma > seen[-1].sigma


def test_before_any_headset_the_calibration_speaks(models):
    stage = OrientationStage(OrientationSettings(), Calibration(forward_yaw=0.4), models["network"])
    out = stage.step(TrackerFrame(5))
    assert (out.yaw, out.stamp_ns, out.source) == (0.4, 5, "network") and out.sigma > 1


@pytest.mark.parametrize("predictor", ["network", "paper"])
def test_a_network_must_be_given_and_be_the_right_one(models, predictor):
    with pytest.raises(MmRosError, match="needs a network"):
        OrientationStage(OrientationSettings(predictor=predictor))
    other = models["paper" if predictor == "network" else "network"]
    with pytest.raises(MmRosError, match=f"this network has layout {other.layout}"):
        OrientationStage(OrientationSettings(predictor=predictor), Calibration(), other)


def test_the_answer_carries_stamp_epoch_and_source(models):
    for predictor in PREDICTORS:
        f = frames(walker(0.2), epoch=3)[0]
        out = stage_of(models, predictor).step(f)
        assert (out.stamp_ns, out.epoch, out.source) == (f.stamp_ns, 3, predictor)


def test_a_minute_of_steps_leaves_no_memory_behind(models):
    stage = stage_of(models)
    sequence = frames(walker(10))
    yaws(stage, sequence[:100])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for f in sequence[100:]:
        stage.step(f)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000


def test_following_is_exact_in_time_for_a_steady_turn():
    """A target that turns at the predicted rate is followed without lag, at any frame rate."""
    for rate in (45.0, 90.0):
        t = np.arange(0, 2, 1 / rate)
        y = follow_sequence(1.5 * t, np.full(len(t), 1.5), np.full(len(t), 1 / rate), 0.16, 11.0, 0.16)
        assert np.abs(y - 1.5 * t).max() < 1e-9


def test_the_default_network_is_of_this_layout(models):
    assert models["network"].layout == layout_hash()
