"""Calibration of a user: automatic, on request, from arms, from a controller on the floor; stored in a file."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import TRACKED, Calibration, TrackerFrame, identity_pose
from mm_ros.evaluation import restless_users
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import CalibrationSettings, Calibrator
from mm_ros.tracking.files import read_calibration, user_file, write_calibration
from mm_ros.tracking.room import Room, compose, inverse

LEFT, RIGHT = 1, 2


def person(t, height=1.7, sway=0.003, pitch=0.0, yaw=0.0, hands=((0.1, 0.25, 0.8), (0.1, -0.25, 0.8)), lift=0.0):
    out = TrackerFrame(int(t * 1e9))
    out.positions[0] = (sway * np.sin(3 * t), sway * np.cos(2 * t), height + lift)
    out.rotations[0] = rot.multiply(rot.from_yaw(yaw), rot.exp(np.array([0, pitch, 0])))
    out.positions[1:3] = np.array(hands)
    out.positions[1:3, 2] += lift
    out.state[:3] = TRACKED
    return out


def feed(calibrator, seconds, start=0.0, **how):
    published = []
    for i in range(int(seconds * 90)):
        new = calibrator.step(person(start + i / 90, **how))
        if new is not None:
            published.append(new)
    return published


def test_standing_still_is_measured_by_itself():
    published = feed(Calibrator(), 5)
    assert len({c.head_height for c in published}) == 1 and published[0].calibrated
    assert published[0].head_height == pytest.approx(1.70, abs=0.002)


@pytest.mark.parametrize(
    "how",
    [{"pitch": 0.6}, {"height": 2.6}, {"height": 0.8}],
    ids=["looks down", "giant", "on a table"],
)
def test_whoever_does_not_stand_is_not_measured_unasked(how):
    assert feed(Calibrator(), 6, **how) == []


def test_a_user_who_sways_is_measured_with_an_uncertainty():
    calibrator = Calibrator()
    feed(calibrator, 5, sway=0.2)
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.01)
    assert 0.005 < calibrator.current.head_height_sigma < 0.04


def test_a_user_who_sits_from_the_start_is_unsure_and_not_a_child():
    calibrator = Calibrator()
    feed(calibrator, 20, height=1.2)
    now = calibrator.current
    assert not now.calibrated and now.note.startswith("seated, height unsure")
    assert 1.5 < now.head_height < 1.75 and now.head_height_sigma >= 0.08
    feed(calibrator, 4, 20, height=1.7)  # stands up
    assert calibrator.current.calibrated and calibrator.current.note == ""
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.01)


def test_a_user_who_sits_down_soon_keeps_the_standing_height():
    calibrator = Calibrator()
    feed(calibrator, 2.6, sway=0.05)
    feed(calibrator, 40, 2.6, height=1.25)
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.015)


def walk(calibrator, seconds, start, height, hands=((0.0, 0.15, -0.45), (0.0, -0.15, -0.45))):
    for i in range(int(seconds * 30)):
        t = start + i / 30
        frame = person(t, height + 0.015 * np.sin(10 * t))
        frame.positions[0, 0] += 0.9 * t
        frame.positions[1:3] = frame.positions[0] + np.array(hands)
        calibrator.step(frame)


def test_a_child_who_walks_is_measured():
    calibrator = Calibrator()
    walk(calibrator, 8, 0, 0.86)
    assert calibrator.current.calibrated
    assert calibrator.current.head_height == pytest.approx(0.87, abs=0.02)


def test_an_adult_who_rolls_on_a_chair_is_no_child():
    calibrator = Calibrator()
    walk(calibrator, 12, 0, 1.2, hands=((0.85, 0.1, -0.2), (0.1, -0.1, -0.4)))
    assert not calibrator.current.calibrated


@pytest.mark.parametrize("known", [None, Calibration(user="anna", calibrated=True, head_height=1.75, arm_span=1.7)])
def test_a_headset_that_is_handed_over_is_measured_again(known):
    calibrator = Calibrator(known=known)
    walk(calibrator, 10, 0, 1.75)
    first = calibrator.current.head_height
    walk(calibrator, 10, 20, 1.55)  # after a gap of 10 s
    assert first == pytest.approx(1.75, abs=0.02)
    assert calibrator.current.head_height == pytest.approx(1.565, abs=0.015)
    assert calibrator.current.arm_span_sigma > 0.05  # not that of the former person


def test_a_headset_that_is_put_back_on_keeps_the_measures():
    known = Calibration(user="anna", calibrated=True, head_height=1.75, arm_span=1.7)
    calibrator = Calibrator(known=known)
    walk(calibrator, 10, 0, 1.75)
    walk(calibrator, 10, 20, 1.72)
    feed(calibrator, 30, 40, height=1.3)  # sits
    assert calibrator.current == known


def test_a_stool_does_not_raise_the_user_for_good():
    calibrator = Calibrator()
    walk(calibrator, 30, 0, 1.7)
    feed(calibrator, 6, 30, height=2.0)
    walk(calibrator, 60, 36, 1.7)
    assert calibrator.current.head_height == pytest.approx(1.715, abs=0.02)


def test_controllers_on_a_low_shelf_are_not_the_floor():
    calibrator = Calibrator()
    feed(calibrator, 6, hands=((0.3, 0.3, 0.28), (0.3, -0.3, 0.28)))
    assert calibrator.current.floor_height == 0
    feed(calibrator, 6, 6, hands=((0.3, 0.3, 0.15), (0.3, -0.3, 0.15)))  # a very low one is taken for the floor
    assert calibrator.current.floor_height == pytest.approx(0.12)
    feed(calibrator, 3, 12, hands=((0.3, 0.3, 0.04), (0.3, -0.3, 0.5)))  # but only until a hand is below it
    assert calibrator.current.floor_height == pytest.approx(0.01, abs=0.005)


def test_an_origin_at_the_head_is_reported_and_the_floor_estimated():
    calibrator = Calibrator()
    feed(calibrator, 4, lift=-1.7)
    now = calibrator.current
    assert "origin" in now.note and now.floor_height == pytest.approx(-1.68, abs=0.06)
    assert now.floor_sigma > 0.05
    feed(calibrator, 4, 4, lift=-1.7, hands=((0.3, 0.3, 0.03), (0.1, -0.25, 0.8)))
    now = calibrator.current
    assert now.floor_height == pytest.approx(-1.7, abs=0.001) and now.note == ""
    feed(calibrator, 4, 8, lift=-1.7)
    assert calibrator.current.head_height == pytest.approx(1.7, abs=0.01)


def test_restless_users_are_measured():
    """Synthetic users who never stand still for 3 s. The claim on people of CMU: benchmarks/2026-11-trackers.md."""
    results = [restless_users.measure(restless_users.make_user(seed, seconds=45.0)) for seed in (7, 8)]
    assert all(r.measured.calibrated and abs(r.error) < 0.03 for r in results), restless_users.lines(results)


def test_straightening_up_later_corrects_it_and_bending_does_not():
    calibrator = Calibrator()
    feed(calibrator, 5, height=1.62)
    feed(calibrator, 5, 5, height=1.70)
    feed(calibrator, 5, 10, height=1.50)
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.002)


def test_a_known_user_is_not_measured_unasked():
    known = Calibration(user="anna", calibrated=True, head_height=1.55)
    assert feed(Calibrator(known=known), 5) == []


def test_on_request():
    calibrator = Calibrator(CalibrationSettings(user="ben", auto_calibrate=False, face_forward=True))
    good, words = calibrator.measure()
    assert not good and "not been tracked" in words
    feed(calibrator, 4, height=1.81, yaw=3.1)
    good, words = calibrator.measure()
    assert good and "1.81" in words
    assert calibrator.current.user == "ben"
    assert calibrator.current.forward_yaw == pytest.approx(3.1, abs=1e-6)
    feed(calibrator, 4, 4, sway=0.3)
    good, words = calibrator.measure()
    assert not good and "cm" in words
    feed(calibrator, 4, 8, height=0.4)
    good, words = calibrator.measure()
    assert not good and "floor" in words
    assert calibrator.current.head_height == pytest.approx(1.81, abs=0.002)


def test_yaw_at_the_seam_of_the_circle():
    calibrator = Calibrator(CalibrationSettings(face_forward=True))
    for i in range(400):
        calibrator.step(person(i / 90, yaw=np.pi + 0.01 * np.sin(i)))
    calibrator.measure()
    assert abs(abs(calibrator.current.forward_yaw) - np.pi) < 0.01


def test_seated_users_get_the_height_that_they_would_stand_at():
    calibrator = Calibrator(CalibrationSettings(posture="seated"))
    feed(calibrator, 4, height=1.2)
    assert calibrator.measure()[0]
    assert calibrator.current.posture == "seated" and calibrator.current.head_height == pytest.approx(1.62, abs=0.01)


def test_spread_arms_are_measured():
    calibrator = Calibrator()
    feed(calibrator, 4)
    feed(calibrator, 1, 4, hands=((0.0, 0.83, 1.45), (0.0, -0.83, 1.45)))
    assert calibrator.current.arm_span == pytest.approx(1.66)
    feed(calibrator, 1, 5, hands=((0.6, 0.83, 1.45), (0.6, -0.83, 1.45)))  # arms in front of the body give no span
    feed(calibrator, 1, 6, hands=((0.0, 0.2, 1.45), (0.0, -0.2, 1.45)))
    assert calibrator.current.arm_span == pytest.approx(1.66)


def test_a_controller_on_the_floor_tells_where_that_is():
    calibrator = Calibrator(CalibrationSettings(auto_calibrate=False))
    feed(calibrator, 3, lift=0.12, hands=((0.3, 0.3, 0.03), (0.1, -0.25, 0.8)))
    assert calibrator.current.floor_height == pytest.approx(0.12, abs=1e-6)
    feed(calibrator, 4, 3, lift=0.12)
    assert calibrator.measure()[0]
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.002)


def test_hanging_hands_are_no_floor():
    calibrator = Calibrator()
    feed(calibrator, 6, hands=((0.0, 0.25, 0.65), (0.0, -0.25, 0.65)))
    assert calibrator.current.floor_height == 0


def test_the_room_is_lifted_and_turned_and_all_moves_along():
    room = Room()
    before = room.carry(person(1.0, lift=0.1))
    assert before.epoch == 0
    room.calibrate(Calibration(floor_height=0.1, forward_yaw=np.pi / 2))
    after = room.carry(person(1.0, lift=0.1))
    assert after.epoch == 1 and after.positions[0, 2] == pytest.approx(1.7)
    there = after.new_from_old
    np.testing.assert_allclose(rot.rotate(there[3:], before.positions[:3]) + there[:3], after.positions[:3], atol=1e-12)
    again = room.carry(person(1.1, lift=0.1))
    np.testing.assert_allclose(again.new_from_old, identity_pose(), atol=1e-12)
    assert again.epoch == 1
    room.calibrate(Calibration(floor_height=0.1, forward_yaw=np.pi / 2, head_height=1.9))
    assert room.carry(person(1.2, lift=0.1)).epoch == 1  # the room is where it was


def test_a_move_of_the_source_is_seen_from_the_room():
    room = Room()
    room.calibrate(Calibration(floor_height=0.2, forward_yaw=0.7))
    first = room.carry(person(1.0))
    moved = np.concatenate([[1.0, 2.0, 0.0], rot.from_yaw(0.4)])
    raw = person(1.0)
    raw.positions[:] = rot.rotate(moved[3:], raw.positions) + moved[:3]
    raw.new_from_old = moved
    second = room.carry(raw)
    there = second.new_from_old
    np.testing.assert_allclose(rot.rotate(there[3:], first.positions) + there[:3], second.positions, atol=1e-12)


def test_poses_compose_and_invert():
    a = np.concatenate([[1, 2, 3], rot.exp(np.array([0.3, -0.2, 0.9]))])
    np.testing.assert_allclose(compose(a, inverse(a)), identity_pose(), atol=1e-12)


def test_a_file_a_user(tmp_path, monkeypatch):
    monkeypatch.setenv("MM_ROS_USERS", str(tmp_path))
    measured = Calibration(user="Anna K", calibrated=True, head_height=1.6123456789, arm_span=1.6)
    measured.left_grip_in_hand[1] = 0.09
    assert read_calibration("Anna K") is None
    path = write_calibration(measured)
    assert path == tmp_path / "Anna K.yaml"
    back = read_calibration("Anna K")
    assert back.head_height == pytest.approx(measured.head_height, abs=1e-6)
    np.testing.assert_allclose(back.left_grip_in_hand, measured.left_grip_in_hand)
    assert replace(back, head_height=0, left_grip_in_hand=0, headset_in_head=0, right_grip_in_hand=0) == replace(
        measured, head_height=0, left_grip_in_hand=0, headset_in_head=0, right_grip_in_hand=0
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 2\n", "version 1, came 2"),
        ("version: 1\nhed_height: 1.7\n", "'hed_height' is not part"),
        ("version: 1\nhead_height: tall\n", "expected float"),
        ("version: 1\nhead_height: .nan\n", "expected a number"),
        ("version: 1\nheadset_in_head: [0, 0, 0]\n", "qw, qx"),
        ("a: [", "not YAML"),
        ("just words", "version 1"),
    ],
)
def test_a_file_with_a_mistake_is_refused_in_words(tmp_path, text, words):
    path = tmp_path / "u.yaml"
    path.write_text(text)
    with pytest.raises(MmRosError, match=words):
        read_calibration("u", path)


@pytest.mark.parametrize("user", ["../etc", "", "a/b", ".hidden"])
def test_names_that_are_no_file_names(user):
    with pytest.raises(MmRosError, match="name"):
        user_file(user)


def test_a_clock_that_goes_back_does_not_stop_the_measuring():
    """A looped bag or restarted simulated time clears the earlier samples."""
    calibrator = Calibrator()
    feed(calibrator, 2, start=5000.0)
    assert len({c.head_height for c in feed(calibrator, 5, start=10.0)}) == 1
    assert len(calibrator._samples) < 5 * 90
    assert calibrator.measure()[0]


def test_a_room_that_was_moved_is_no_step_of_the_user():
    calibrator = Calibrator(CalibrationSettings(auto_calibrate=False))
    feed(calibrator, 4)
    moved = identity_pose()
    moved[0] = 2.0
    for i in range(4 * 90):
        frame = person(4 + i / 90)
        frame.positions[:, 0] += 2.0
        frame.epoch, frame.new_from_old = 1, moved if i == 0 else identity_pose()
        calibrator.step(frame)
        if i == 200:
            assert "tracked" in calibrator.measure()[1]  # not: "you moved by 2 m"
    assert calibrator.measure()[0]


def test_a_floor_that_is_found_later_corrects_the_height_that_was_measured():
    """The headset was 1.82 m above the assumed floor; the real floor is 12 cm higher."""
    calibrator = Calibrator()
    feed(calibrator, 5, lift=0.12)
    assert calibrator.current.head_height == pytest.approx(1.82, abs=0.002)
    feed(calibrator, 3, 5, lift=0.12, hands=((0.3, 0.3, 0.03), (0.1, -0.25, 0.8)))
    assert calibrator.current.floor_height == pytest.approx(0.12, abs=1e-6)
    assert calibrator.current.head_height == pytest.approx(1.70, abs=0.002)


def test_a_floor_does_not_change_the_height_of_a_known_user():
    known = Calibration(user="anna", calibrated=True, head_height=1.55)
    calibrator = Calibrator(known=known)
    feed(calibrator, 3, lift=0.12, hands=((0.3, 0.3, 0.03), (0.1, -0.25, 0.8)))
    assert calibrator.current.floor_height == pytest.approx(0.12, abs=1e-6)
    assert calibrator.current.head_height == 1.55
