"""Training data of the facing networks: variants of motions, and motions joined to sessions."""

from dataclasses import replace

import numpy as np
import pytest
from orientation_toys import degrees_apart, everyone, walker

from mm_ros.facing.inputs import mirror
from mm_ros.facing.training import augment, data
from mm_ros.maths import rotations as rot


def seen_by_the_body(v):
    """Positions of the hands relative to the head, in body axes."""
    return rot.rotate(rot.from_yaw(-v.yaw)[:, None], v.positions[:, 1:] - v.positions[:, :1])


def test_no_augmentation_is_the_motion_as_the_trackers_would_tell_it():
    m = walker(2)
    v = augment.variant(m, augment.NONE, np.random.default_rng(0))
    assert np.array_equal(v.yaw, m.yaw) and v.height == m.height and (v.state == 2).all()
    assert np.allclose(v.rotations, m.rotations)
    assert np.allclose(v.positions[:, 0], m.positions[:, 0] + rot.rotate(m.rotations[:, 0], augment.HEADSET))


def test_mirrored_twice_is_the_same():
    m = walker(1)
    once = augment._mirrored(m.positions, m.rotations, m.yaw)
    twice = augment._mirrored(*once)
    for a, b in zip(twice, (m.positions, m.rotations, m.yaw), strict=True):
        assert np.allclose(a, b)
    assert np.allclose(rot.yaw_of(once[1][:, 0]), -rot.yaw_of(m.rotations[:, 0]))


def test_mirrored_motion_gives_mirrored_inputs():
    m = replace(walker(3), positions=walker(3).positions + np.random.default_rng(0).normal(0, 0.02, (180, 3, 3)))
    plain, mirrored = (
        augment.variant(m, replace(augment.NONE, mirror=share), np.random.default_rng(0)).inputs()[0]
        for share in (0.0, 1.0)
    )
    order, signs = mirror()
    assert np.allclose(plain[:, order] * signs, mirrored, atol=1e-6)
    assert not np.allclose(plain, mirrored, atol=1e-2)


def test_a_gesture_moves_one_hand_and_comes_back():
    m = walker(8)
    p, q = m.positions.copy(), m.rotations.copy()
    augment._gesture(1, p, q, m.yaw, 1 / m.rate, m.height, np.random.default_rng(3))
    moved = np.linalg.norm(p[:, 1] - m.positions[:, 1], axis=1)
    assert moved.max() > 0.1 and (moved < 1e-9).sum() > 20
    assert np.array_equal(p[:, [0, 2]], m.positions[:, [0, 2]]) and np.array_equal(q[:, [0, 2]], m.rotations[:, [0, 2]])
    assert np.linalg.norm(p[:, 1] - p[:, 0], axis=1).max() < 0.75 * m.height


def test_looking_around_turns_the_head_alone():
    m, how = walker(8), replace(augment.NONE, look_around=1.0, look_amplitude=(60.0, 60.0))
    plain = augment.variant(m, augment.NONE, np.random.default_rng(1))
    v = augment.variant(m, how, np.random.default_rng(1))
    assert np.allclose(v.positions[:, 1:], plain.positions[:, 1:]) and np.array_equal(v.yaw, plain.yaw)
    turned = degrees_apart(rot.yaw_of(v.rotations[:, 0]), rot.yaw_of(plain.rotations[:, 0]))
    assert turned.max() > 20


def test_a_crab_walks_the_same_path_and_faces_elsewhere():
    m = walker(3)
    plain = augment.variant(m, augment.NONE, np.random.default_rng(2))
    v = augment.variant(m, replace(augment.NONE, crab=1.0, crab_deg=90.0), np.random.default_rng(2))
    turned = rot.wrap_angle(v.yaw - plain.yaw)
    assert np.ptp(turned) < 1e-9 and abs(turned[0]) > 0.01
    assert np.abs(seen_by_the_body(v) - seen_by_the_body(plain)).max() < 1e-9


def test_a_crab_that_looks_turns_the_head_alone_back_to_where_it_goes():
    m, how = walker(3), replace(augment.NONE, crab=1.0, crab_deg=150.0)
    far = 0
    for seed in range(8):
        v = augment.variant(m, how, np.random.default_rng(seed))
        looking = augment.variant(m, replace(how, crab_looks=1.0), np.random.default_rng(seed))
        assert np.array_equal(looking.yaw, v.yaw) and np.array_equal(looking.rotations[:, 1:], v.rotations[:, 1:])
        hands = [w.positions[:, 1:] - w.positions[:, :1] for w in (v, looking)]
        assert np.abs(hands[0] - hands[1]).max() < 0.25  # the headset moves about the neck, and nothing else
        angle = float(rot.wrap_angle(v.yaw[0] - m.yaw[0]))
        back = rot.wrap_angle(rot.yaw_of(v.rotations[:, 0]) - rot.yaw_of(looking.rotations[:, 0]))
        limit = min(abs(angle), np.radians(75)) + 1e-6
        assert np.ptp(back) < 1e-6 and min(0.3 * abs(angle), limit) - 1e-6 < back[0] * np.sign(angle) < limit
        far += abs(angle) > np.radians(75)
    assert far


def along(v):
    """Speed of the headset the way the body faces, mean."""
    return float((rot.rotate(rot.from_yaw(-v.yaw), v.velocities[:, 0])[:, 0]).mean())


def test_reversed_twice_is_the_same():
    m, seams = walker(2), [20, 70]
    once = augment._reversed(m.positions, m.rotations, m.yaw, seams)
    assert np.array_equal(once[0][0], m.positions[-1]) and once[3] == [len(m) - 20, len(m) - 70]
    *twice, seams_twice = augment._reversed(*once)
    assert seams_twice == seams
    for a, b in zip(twice, (m.positions, m.rotations, m.yaw), strict=True):
        assert np.array_equal(a, b)


def test_a_reversed_walk_goes_backward_and_faces_the_same():
    joined = data.chained([walker(2, seed=1), walker(3, seed=2)])
    plain, v = (
        augment.variant(joined, replace(augment.NONE, reverse=share), np.random.default_rng(0)) for share in (0.0, 1.0)
    )
    assert np.array_equal(v.yaw, plain.yaw[::-1]) and np.allclose(v.positions, plain.positions[::-1])
    assert along(plain) > 0.5 and along(v) == pytest.approx(-along(plain), rel=0.05)
    assert np.abs(v.velocities).max() < 3  # none across the seam, which has moved too


def test_a_lent_hand_does_what_it_does_on_the_other_body():
    m, donor = walker(3, seed=1), walker(5, seed=2)
    how = replace(augment.NONE, other_hand=1.0)
    v = augment.variant(m, how, np.random.default_rng(3), [donor])
    reach = np.linalg.norm(seen_by_the_body(v)[:, :, :2], axis=-1)
    assert reach.max() < 0.75 and np.abs(v.velocities).max() < 6


def test_a_splice_turns_truth_and_trackers_together():
    m = walker(3)
    v = augment.variant(m, replace(augment.NONE, wrong_past=1.0), np.random.default_rng(5))
    plain = augment.variant(m, augment.NONE, np.random.default_rng(5))
    assert np.abs(rot.wrap_angle(np.diff(v.yaw))).max() > 0.1
    assert np.abs(seen_by_the_body(v) - seen_by_the_body(plain)).max() < 1e-9
    assert np.abs(v.velocities).max() < 1.01 * np.abs(np.linalg.norm(plain.velocities, axis=-1)).max()


def test_chained_clips_go_on_where_the_last_one_ended():
    a, b = walker(2, seed=1), walker(3, seed=2)
    c = data.chained([a, b])
    assert len(c) == len(a) + len(b) and c.seams == (len(a),)
    assert abs(rot.wrap_angle(c.yaw[len(a)] - c.yaw[len(a) - 1])) < 1e-9
    assert np.allclose(c.positions[len(a), 0, :2], c.positions[len(a) - 1, 0, :2])
    v = augment.variant(c, augment.NONE, np.random.default_rng(0))
    assert np.abs(v.velocities).max() < 3


def test_sessions_use_every_clip_once_and_mix_no_subjects():
    motions = everyone(9)
    joined = data.sessions(motions, 4, np.random.default_rng(0))
    assert sum(len(s) for s in joined) == sum(len(m) for m in motions)
    assert max(len(s.seams) for s in joined) < 4


def test_the_head_bias_of_a_subject_is_found_and_taken_out():
    motions = []
    for m in everyone(6):
        q = m.rotations.copy()
        q[:, 0] = rot.multiply(q[:, 0], rot.from_yaw(0.3 if m.subject == "s1" else 0.0))
        motions.append(replace(m, rotations=q))
    before = data.head_bias([m for m in motions if m.subject == "s1"])
    after = data.head_bias([m for m in data.without_head_bias(motions) if m.subject == "s1"])
    assert before == pytest.approx(0.3, abs=0.15) and abs(after) < 1e-3
