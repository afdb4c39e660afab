import math
from dataclasses import replace

import numpy as np
import pytest
import reference_trajectory
from toys import CALIBRATION, trackers

from mm_ros.body.types import HEAD_ROLE, LOST, TRACKED, WAIST_ROLE, BodyOrientation, FeetEstimate, TrackerFrame
from mm_ros.maths import rotations as rot
from mm_ros.motion.features import HORIZON_S
from mm_ros.steps.estimator import StepEstimate
from mm_ros.trajectory.from_trackers import TrajectorySettings, TrajectoryStage

RATE = 90


def stage(**settings) -> TrajectoryStage:
    return TrajectoryStage(TrajectorySettings(**settings), CALIBRATION, HORIZON_S)


def facing(frame, yaw: float = 0.0, sigma: float = 0.05) -> BodyOrientation:
    return BodyOrientation(frame.stamp_ns, frame.epoch, yaw, 0.0, sigma, "test")


def follow(predictor, head, seconds: float, yaw=lambda t: 0.0, rate: float = RATE, sigma: float = 0.05):
    """`head(t)` → (x, y); velocities are its derivative."""
    out = []
    for i in range(round(seconds * rate)):
        t, h = i / rate, 1e-4
        x, v = np.array(head(t)), (np.array(head(t + h)) - np.array(head(t))) / h
        frame = trackers(t, (*x, 1.68), 0.0, (*v, 0.0))
        out.append(predictor.step(frame, facing(frame, yaw(t), sigma)))
    return out


def test_a_steady_walk_is_predicted():
    desired = follow(stage(), lambda t: (1.2 * t, 0.0), 2)[-1]
    assert desired.velocity == pytest.approx([1.2, 0], abs=1e-3)
    assert desired.positions[:, 0] - desired.position[0] == pytest.approx([0.4, 0.8, 1.2], abs=0.01)
    assert desired.directions == pytest.approx(np.tile([1, 0], (3, 1)), abs=1e-6)


def test_the_hips_are_a_little_behind_the_head():
    desired = follow(stage(), lambda t: (0.0, 0.0), 1, yaw=lambda t: math.pi / 2)[-1]
    head_joint = -CALIBRATION.headset_in_head[0]
    assert desired.position[0] == pytest.approx(head_joint, abs=1e-9)
    assert -0.06 < desired.position[1] < -0.005


def test_bending_over_is_not_walking():
    """The head moves forward by 0.3 m and down by 0.15 m and looks down by 0.25 rad; the hips stay.

    With a level gaze the hips would move by 16 cm: a head that sinks without a nod is that of a lunge (test_low.py).
    """
    predictor = stage()
    places = []
    for i in range(180):
        t = i / RATE
        bent = min(t, 1.0)
        joint = np.array([0.3 * math.sin(bent * math.pi / 2), 0.0, 1.60 - 0.15 * bent])
        turn = rot.exp(np.array([0.0, 0.25 * bent, 0.0]))
        frame = trackers(t, joint + rot.rotate(turn, np.array(CALIBRATION.headset_in_head[:3])), 0.0)
        frame.rotations[HEAD_ROLE] = turn
        desired = predictor.step(frame, facing(frame))
        places.append(desired.position[0])
    assert abs(places[-1] - places[0]) < 0.12
    assert desired.height_ratio == pytest.approx(1 - 0.15 / 1.6, abs=1e-3)


def test_turning_the_head_moves_nothing():
    """A headset that rotates about the head's centre does not move the centre."""
    predictor = stage()
    offset = np.array(CALIBRATION.headset_in_head[:3])
    moved = []
    for i in range(180):
        t = i / RATE
        yaw, rate = 0.8 * math.sin(3 * t), 2.4 * math.cos(3 * t)
        q = rot.from_yaw(yaw)
        arm = rot.rotate(q, offset)
        frame = trackers(t, np.add(arm, (0, 0, 1.6)), yaw, np.cross([0, 0, rate], arm))
        frame.angular_velocities[HEAD_ROLE] = (0, 0, rate)
        desired = predictor.step(frame, facing(frame))
        moved.append(np.linalg.norm(desired.positions[2] - desired.position))
    assert max(moved) < 1e-6


@pytest.mark.parametrize(("size", "hertz"), [(0.03, 0.3), (0.02, 0.5), (0.01, 1.0), (0.04, 0.2)])
def test_head_sway_is_no_walk(size, hertz):
    targets = follow(stage(), lambda t: (0.0, size * math.sin(2 * math.pi * hertz * t)), 6)
    ahead = [np.linalg.norm(w.positions[2] - w.position) for w in targets]
    assert max(ahead) < 0.05


def test_reacts_to_a_start_and_a_stop():
    def head(t):
        return (1.2 * min(max(t - 1, 0), 2), 0.0)

    targets = follow(stage(), head, 4)
    speed = np.array([w.velocity[0] for w in targets])
    assert np.argmax(speed > 0.6) / RATE - 1 < 0.1
    stopped = np.flatnonzero(speed[3 * RATE :] < 0.3)[0] / RATE
    assert stopped < 0.15
    assert abs(speed[-1]) < 1e-3


def test_the_directions_turn_with_the_body():
    desired = follow(stage(), lambda t: (math.sin(t), 1 - math.cos(t)), 2, yaw=lambda t: t)[-1]
    later = math.atan2(desired.directions[2, 1], desired.directions[2, 0])
    assert later - desired.yaw > 0.2


def test_a_head_that_sways_with_each_step_walks_straight_on():
    """3 cm to either side, once a second: the velocity of the headset alone would predict 19 cm after a second."""
    sway = follow(stage(), lambda t: (1.2 * t, 0.03 * math.sin(2 * math.pi * t)), 6)[4 * RATE :]
    lateral = max(abs(w.positions[2, 1]) for w in sway)
    assert lateral < 0.15


def test_a_lasting_sidestep_is_predicted():
    desired = follow(stage(), lambda t: (0.0, 0.7 * t), 6)[-1]
    assert desired.positions[2] - desired.position == pytest.approx([0, 0.7], abs=0.02)


def test_after_a_turn_the_way_comes_round_to_the_facing():
    """The body faces left while the head still drifts forward: the prediction is below that of constant velocity."""
    ahead = follow(stage(), lambda t: (t, 0.0), 3, yaw=lambda t: 0.0 if t < 2.7 else math.pi / 2)[-1]
    assert ahead.positions[2, 0] - ahead.position[0] < 0.7


def test_an_uncertain_facing_follows_more_slowly():
    yaws = []
    for sigma in (0.05, 1.0):
        predictor = stage()
        follow(predictor, lambda t: (0.0, 0.0), 0.5)
        frame = trackers(0.5 + 0.05)
        yaws.append(predictor.step(frame, facing(frame, 1.0, sigma)).yaw)
    assert yaws[0] > 2 * yaws[1] > 0


def test_facing_goes_the_short_way_round():
    predictor = stage()
    follow(predictor, lambda t: (0.0, 0.0), 0.5, yaw=lambda t: 3.1)
    frame = trackers(0.52)
    assert abs(predictor.step(frame, facing(frame, -3.1)).yaw) > 3.0


def test_the_rate_of_the_display_does_not_matter():
    ends = [follow(stage(), lambda t: (0.5 * t * t, 0.1 * t), 1, rate=r)[-1] for r in (72, 144)]
    assert ends[0].velocity == pytest.approx(ends[1].velocity, abs=0.03)


def test_without_trackers_the_trajectory_stands_at_the_last_position():
    predictor = stage()
    last = follow(predictor, lambda t: (1.2 * t, 0.0), 1)[-1]
    desired = predictor.stale(round(1.3e9))
    assert desired.stale and desired.stamp_ns == round(1.3e9)
    assert desired.position == pytest.approx(last.position)
    assert desired.positions == pytest.approx(np.tile(desired.position, (3, 1)), abs=1e-6)
    assert not desired.velocity.any()


def test_a_lost_head_and_a_late_sample_give_nothing():
    predictor = stage()
    follow(predictor, lambda t: (0.0, 0.0), 0.5)
    late = trackers(0.45)
    assert predictor.step(late, facing(late)) is None
    lost = trackers(0.6)
    lost.state[HEAD_ROLE] = LOST
    assert predictor.step(lost, facing(lost)) is None


def test_stick_locomotion_is_a_velocity():
    """The play space moves at 1 m/s (`new_from_old` of each sample) and the headset stands in it."""
    predictor = stage()
    for i in range(90):
        frame = trackers(i / RATE, (i / RATE, 0.0, 1.68))
        frame.new_from_old = np.array([1 / RATE, 0, 0, 1, 0, 0, 0])
        desired = predictor.step(frame, facing(frame))
    assert desired.velocity[0] == pytest.approx(1.0, abs=0.02)


def test_a_recentre_carries_the_motion_along():
    predictor = stage()
    before = follow(predictor, lambda t: (1.2 * t, 0.0), 1)[-1]
    h = math.pi / 4
    frame = trackers(1.0, (0.0, 1.2, 1.68), math.pi / 2, (0.0, 1.2, 0.0), epoch=1)
    frame.new_from_old = np.array([0, 0, 0, math.cos(h), 0, 0, math.sin(h)])
    desired = predictor.step(frame, facing(frame, math.pi / 2))
    assert desired.velocity == pytest.approx([0, before.velocity[0]], abs=0.02)
    assert desired.yaw == pytest.approx(math.pi / 2, abs=0.01)
    assert desired.epoch == 1


def test_half_a_second_without_samples_is_not_integrated():
    predictor = stage()
    follow(predictor, lambda t: (1.2 * t, 0.0), 1)
    frame = trackers(9.0, (5.0, 5.0, 1.68))
    desired = predictor.step(frame, facing(frame, 2.0))
    assert np.linalg.norm(desired.velocity) < 1e-6
    assert desired.yaw == pytest.approx(2.0)


def test_a_waist_tracker_wins_over_the_guess():
    predictor = stage()
    for i in range(90):
        frame = trackers(i / RATE, (0.3, 0.0, 1.68))
        frame.positions[WAIST_ROLE] = (0.05, 0.02, 1.0)
        frame.state[WAIST_ROLE] = TRACKED if i < 60 else LOST
        desired = predictor.step(frame, facing(frame))
        if i == 59:
            assert desired.position == pytest.approx([0.05, 0.02], abs=1e-6)
    assert desired.position[0] > 0.12


def wandering(seed: int, frames: int = 400):
    """Trackers, facing and estimate of a user who walks, turns, bends, sits, loses devices and moves the play space."""
    rng = np.random.default_rng(seed)
    stamp_ns, epoch, yaw = 0, 0, 0.0
    place, height = np.zeros(2), 1.6
    for i in range(frames):
        stamp_ns += int(rng.choice([11_111_111, 0, 700_000_000, -(10**9)], p=[0.97, 0.01, 0.01, 0.01]))
        epoch += rng.random() < 0.01
        yaw += 0.02 * np.sin(i / 30 + seed)
        speed = 1.2 if (i // 80 + seed) % 2 else 0.02
        velocity = speed * np.array([np.cos(yaw), np.sin(yaw)])
        place = place + velocity * 0.011
        height += 0.05 * ((1.6 if (i // 60 + seed) % 3 else 0.9) - height)
        frame = TrackerFrame(10**10 + stamp_ns, epoch)
        frame.positions[:4, :2] = place + rng.normal(0, 0.05, (4, 2))
        frame.positions[:4, 2] = (height, 0.7 * height, 0.6 * height, 0.6 * height)
        frame.rotations[:4] = rot.exp(rng.normal(0, 0.3, (4, 3)))
        frame.velocities[:4, :2] = velocity + rng.normal(0, 0.05, (4, 2))
        frame.angular_velocities[:4] = rng.normal(0, 0.5, (4, 3))
        frame.state[:3] = TRACKED
        frame.state[1:4] = np.where(rng.random(3) < 0.2, LOST, TRACKED)
        frame.state[WAIST_ROLE] = TRACKED if (i // 100 + seed) % 2 else LOST
        if rng.random() < 0.02:
            frame.new_from_old = np.array([*rng.normal(0, 0.2, 3), *rot.from_yaw(rng.normal())])
        facing = BodyOrientation(frame.stamp_ns, epoch, yaw + 0.1 * rng.normal(), 0.0, abs(rng.normal(0, 0.3)), "test")
        known = StepEstimate(
            FeetEstimate(np.zeros((2, 10))), rng.normal(0, 0.5, (3, 2)), rng.uniform(0, 1, 3),
            yaw + rng.normal(0, 1, 3), rng.uniform(0, 1, 3),
        )  # fmt: skip
        yield frame, facing, known if (i // 50) % 2 else None


@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_equals_the_readable_form(seed):
    mounting = np.array([0.05, 0.02, 0.03, *rot.from_yaw(0.4)])
    measured = replace(CALIBRATION, mountings={"waist": mounting} if seed else {})
    settings = TrajectorySettings(learned_turn=0.5 * (seed == 1))
    made = TrajectoryStage(settings, measured, HORIZON_S)
    reference = reference_trajectory.TrajectoryStage(settings, measured, HORIZON_S)
    for i, (frame, facing, known) in enumerate(wandering(seed)):
        pairs = [(made.step(frame, facing, known), reference.step(frame, facing, known))]
        if i % 90 == 89:
            pairs.append((made.stale(frame.stamp_ns), reference.stale(frame.stamp_ns)))
        for out, expected in pairs:
            assert (out is None) == (expected is None)
            if out is not None:
                for name in ("position", "velocity", "yaw", "yaw_sigma", "height_ratio"):
                    np.testing.assert_allclose(getattr(out, name), getattr(expected, name), rtol=0, atol=1e-9)
                for name in ("positions", "directions"):  # float32
                    np.testing.assert_allclose(getattr(out, name), getattr(expected, name), rtol=0, atol=3e-6)


def test_the_network_counts_more_where_the_velocity_changes():
    """Constant velocity predicts a steady walk well, but not a start."""
    known = StepEstimate(FeetEstimate(np.zeros((2, 10))), np.zeros((3, 2)), np.full(3, 0.3), np.zeros(3), np.ones(3))

    def share(way, seconds: float) -> float:
        """Share of the network, which predicts no motion, in the predicted way of the last second."""
        own, plain = stage(), stage(learned_ahead=0.0)
        for i in range(round(seconds * RATE)):
            t, h = i / RATE, 1e-4
            frame = trackers(t, (way(t), 0.0, 1.68), 0.0, ((way(t + h) - way(t)) / h, 0.0, 0.0))
            ends = [s.step(frame, facing(frame), known) for s in (own, plain)]
        ways = [e.positions[-1, 0] - e.position[0] for e in ends]
        return 1.0 - ways[0] / ways[1]

    steady, start = share(lambda t: 1.2 * t, 2.0), share(lambda t: 0.6 * max(t - 1.0, 0.0) ** 2, 2.0)
    assert 0.2 < steady < 0.4
    assert start > steady + 0.1
