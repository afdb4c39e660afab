"""Simulated trackers have the documented offsets, with any joint axes."""

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, LEFT_HAND, RIGHT_HAND, J, default_skeleton
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, TRACKED
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import avatar_scale, from_skeleton, from_standing_height, head_joint_height
from mm_ros.tracking.simulation import Simulation, head_axes, simulate, simulate_clip


def standing(frames: int = 120, rate: float = 60.0, yaw_rate: float = 0.0, speed: float = 0.0) -> Clip:
    skeleton = default_skeleton()
    positions = np.tile(skeleton.offsets, (frames, 1, 1))
    rotations = np.zeros((frames, J, 4), np.float32)
    rotations[..., 0] = 1
    t = np.arange(frames) / rate
    positions[:, 0, 0] = speed * t
    rotations[:, 0] = rot.from_yaw(yaw_rate * t)
    return Clip("standing", rate, skeleton, positions, rotations)


def test_devices_sit_at_their_offsets():
    clip = standing()
    track = simulate_clip(clip)
    rest = clip.skeleton.rest_positions()
    assert len(track) == 179  # 119/60 s at 90 Hz, both ends
    np.testing.assert_allclose(track.positions[5, HEAD_ROLE], rest[HEAD] + (0.10, 0, 0.08), atol=1e-6)
    np.testing.assert_allclose(track.positions[5, LEFT_HAND_ROLE], rest[LEFT_HAND] + (0, 0.08, 0), atol=1e-6)
    np.testing.assert_allclose(
        track.positions[5, RIGHT_HAND_ROLE], rest[RIGHT_HAND] - (0, 0.08, 0), atol=1e-6
    )
    assert (track.state[:, :3] == TRACKED).all() and (track.state[:, 3:] == LOST).all()


def test_velocities_are_those_of_the_motion():
    track = simulate_clip(standing(speed=1.2))
    np.testing.assert_allclose(
        track.velocities[:, HEAD_ROLE], np.tile([1.2, 0, 0], (len(track), 1)), atol=1e-4
    )
    track = simulate_clip(standing(yaw_rate=2.0))
    np.testing.assert_allclose(
        track.angular_velocities[:, HEAD_ROLE], np.tile([0, 0, 2.0], (len(track), 1)), atol=2e-3
    )


@pytest.mark.parametrize("seed", range(12))
def test_other_joint_axes_give_the_same_headset(seed):
    """A skeleton with other head and hand axes (any signed permutation) gives the same devices."""
    rng = np.random.default_rng(seed)
    clip = standing(yaw_rate=1.0)
    p, q = clip.globals()
    quarter = [rot.exp(a * np.pi / 2) for a in np.eye(3)]
    turned = q.astype(np.float64)
    for joint in (HEAD, LEFT_HAND, RIGHT_HAND):
        for k in rng.integers(3, size=4):
            turned[:, joint] = rot.multiply(turned[:, joint], quarter[k])
    plain, other = simulate(p, q, 60), simulate(p, turned, 60)
    np.testing.assert_allclose(other.positions, plain.positions, atol=1e-6)
    same = np.abs((other.rotations[:, HEAD_ROLE] * plain.rotations[:, HEAD_ROLE]).sum(-1))
    np.testing.assert_allclose(same, 1, atol=1e-9)


def test_constant_pitch_is_levelled_and_yaw_only_when_asked():
    tilt = rot.multiply(rot.from_yaw(0.3), rot.exp(np.array([0, 0.4, 0])))
    heads = np.tile(tilt, (50, 1))
    ahead = np.tile([1.0, 0, 0], (50, 1))
    looking = rot.rotate(rot.multiply(tilt, head_axes(heads, ahead)), np.array([1.0, 0, 0]))
    assert abs(looking[2]) < 1e-9
    assert np.arctan2(looking[1], looking[0]) == pytest.approx(0.3)
    looking = rot.rotate(
        rot.multiply(tilt, head_axes(heads, ahead, remove_yaw_bias=True)), np.array([1.0, 0, 0])
    )
    np.testing.assert_allclose(looking, [1, 0, 0], atol=1e-9)


def test_options_are_reproducible_by_seed():
    options = Simulation(
        noise_m=0.001, noise_rad=0.01, grip_sd_rad=0.5, dropouts_per_minute=60, look_around_rad=1, seed=3
    )
    a, b = simulate_clip(standing(600), options), simulate_clip(standing(600), options)
    for name in ("positions", "rotations", "velocities", "state"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.state[:, [LEFT_HAND_ROLE, RIGHT_HAND_ROLE]] == LOST).any()
    assert (a.state[:, HEAD_ROLE] == TRACKED).all()
    lost = a.state == LOST
    assert not a.velocities[lost].any()


def test_frame_is_a_copy():
    track = simulate_clip(standing())
    track.frame(0).positions[:] = 9
    assert track.positions.max() < 3


def test_one_frame_is_refused():
    with pytest.raises(MmRosError, match="two frames"):
        simulate_clip(standing(1))


def test_the_users_own_skeleton_has_scale_one():
    skeleton = default_skeleton()
    assert avatar_scale(from_skeleton(skeleton), skeleton) == pytest.approx(1)
    assert head_joint_height(from_standing_height(1.68)) == pytest.approx(1.60)
    with pytest.raises(MmRosError, match="floor"):
        from_standing_height(0.3)
