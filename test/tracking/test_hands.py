"""Conventions of hand poses, their estimate from motion, the fit to the user, and exchanged controllers."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import LEFT_HAND_ROLE, LOST, TRACKED, TrackerFrame
from mm_ros.cli.main import main
from mm_ros.maths import rotations as rot
from mm_ros.sessions.session import read_session
from mm_ros.sessions.tables import COLUMNS
from mm_ros.tracking.files import read_hands, write_hands
from mm_ros.tracking.hand_poses import ESTIMATED, HAND_POSES, hand_in_device, hand_pose
from mm_ros.tracking.hands import FittedHands, HandSettings, HandStage, converted

DT_NS = 11_111_111
HANDS = [LEFT_HAND_ROLE, LEFT_HAND_ROLE + 1]


def arm_pose(t, side):
    """Palm and hand of a stretched arm that swings between hanging and pointing ahead and outward."""
    s = 1.0 - 2.0 * side
    up, out = 0.9 + 0.8 * np.sin(0.9 * t + side), 0.4 + 0.35 * np.sin(1.7 * t)
    along = np.array([np.sin(up) * np.cos(out), s * np.sin(up) * np.sin(out), -np.cos(up)])
    shoulder = np.array([0.0, s * 0.17, 1.42])
    # Fingers along the arm, the thumb up or ahead.
    thumb = np.array([np.cos(up), 0.0, np.sin(up)]) - along * (np.cos(up) * along[0] + np.sin(up) * along[2])
    x = thumb / np.linalg.norm(thumb)
    y = s * along
    return shoulder + 0.62 * along, quaternion(np.stack([x, y, np.cross(x, y)], 1))


def quaternion(m):
    """Quaternion (w ≥ 0) of a rotation matrix, by the eigenvector of Bar-Itzhack's matrix."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = m.ravel()
    k = np.array(
        [[xx + yy + zz, zy - yz, xz - zx, yx - xy], [zy - yz, xx - yy - zz, xy + yx, xz + zx],
         [xz - zx, xy + yx, yy - xx - zz, yz + zy], [yx - xy, xz + zx, yz + zy, zz - xx - yy]]
    )  # fmt: skip
    q = np.linalg.eigh(k)[1][:, -1]
    return q * (1 if q[0] >= 0 else -1)


def recording(name, seconds=4.0, mounting=(0.0, 0.0, 0.0), exchanged=False):
    """Frames of devices in a convention, and the true hands (F, 2, 7)."""
    frames, truth = [], []
    for i in range(int(seconds * 90)):
        f = TrackerFrame(10**9 + i * DT_NS)
        f.positions[0], f.state[:3] = (0.08, 0.0, 1.68), TRACKED
        hands = []
        for side in range(2):
            p, q = arm_pose(i / 90, side)
            device = hand_in_device(name, side)
            turn = rot.multiply(device[3:], rot.exp(np.array(mounting)))
            dq = rot.multiply(q, rot.inverse(turn))
            role = HANDS[1 - side if exchanged else side]
            f.positions[role], f.rotations[role] = p - rot.rotate(dq, device[:3]), dq
            hands.append([*p, *q])
        frames.append(f)
        truth.append(hands)
    return frames, np.array(truth)


def bend_deg(frames, truth):
    """Angle between the fingers of converted and true hands (F, 2)."""
    y = np.array([0.0, 1.0, 0.0])
    got = rot.rotate(np.array([f.rotations[HANDS] for f in frames]), y)
    return np.degrees(np.arccos(np.clip((got * rot.rotate(truth[..., 3:], y)).sum(-1), -1, 1)))


@pytest.mark.parametrize("name", HAND_POSES)
def test_a_declared_convention_gives_the_hand(name):
    frames, truth = recording(name, 1.0)
    stage = HandStage(HandSettings(fit_hands=False), declared=name)
    out = [stage.step(f) for f in frames]
    np.testing.assert_allclose([f.positions[HANDS] for f in out], truth[..., :3], atol=1e-9)
    assert bend_deg(out, truth).max() < 1e-3


def test_grip_and_palm_are_as_specified():
    """OpenXR's words in ROS axes: OpenXR x is −y here, OpenXR −z is x."""
    for side, s in ((0, 1.0), (1, -1.0)):
        grip, palm = hand_in_device("openxr_grip", side)[3:], hand_in_device("openxr_palm", side)[3:]
        fingers, thumb, palm_normal = np.array([0, s, 0]), np.array([1.0, 0, 0]), np.array([0, 0, -1.0])
        np.testing.assert_allclose(rot.rotate(grip, palm_normal), [0, -s, 0], atol=1e-9)  # out of left, into right
        np.testing.assert_allclose(rot.rotate(grip, thumb), [1, 0, 0], atol=1e-9)
        np.testing.assert_allclose(rot.rotate(palm, fingers), [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize("name", ["openxr_grip", "steamvr_raw", "wrist"])
def test_an_unknown_convention_is_estimated_and_reported(name):
    frames, truth = recording(name)
    stage = HandStage(HandSettings(hand_pose=ESTIMATED))
    out = converted(frames, stage)
    assert name in stage.report() and "samples" in stage.report()
    assert np.median(bend_deg(out, truth)) < 15


def test_a_mounting_is_fitted_within_seconds():
    frames, truth = recording("steamvr_raw", 8.0, mounting=(0.0, 0.0, 0.5))
    stage = HandStage(declared="steamvr_raw")
    bend = bend_deg([stage.step(f) for f in frames], truth)
    assert np.median(bend[:30]) > 20 and np.median(bend[4 * 90 :]) < 13
    assert stage.fit(0).bend_after < stage.fit(0).bend_before


OFFSET = np.array([0.0, 0.015, 0.02])  # m, device axes; beside the fingers, which point along x and down


def twisting(offset, frames=600, twist=1.3):
    """Frames of devices (steamvr_raw), mounted with an offset on forearms that swing and turn about their axis."""
    out = []
    for i in range(frames):
        t = i / 90
        f = TrackerFrame(10**9 + i * DT_NS)
        f.positions[0], f.state[:3] = (0.08, 0.0, 1.68), TRACKED
        for side in range(2):
            device = hand_in_device("steamvr_raw", side)
            p, q = arm_pose(0.4 * t, side)
            about = np.array([0.0, 1.0, 0.0])
            turned = rot.multiply(q, rot.exp(about * twist * np.sin(9.0 * t + side)))
            dq = rot.multiply(turned, rot.inverse(device[3:]))
            f.positions[HANDS[side]] = p - rot.rotate(dq, device[:3] + offset)
            f.rotations[HANDS[side]] = dq
            f.angular_velocities[HANDS[side]] = rot.rotate(q, about * twist * 9.0 * np.cos(9.0 * t + side))
        out.append(f)
    return out


def offsets_of(stage, name="steamvr_raw"):
    """Fitted offsets without their parts along the true fingers (2, 3)."""
    out = []
    for side in range(2):
        along = rot.rotate(hand_in_device(name, side)[3:], np.array([0.0, 1.0, 0.0]))
        v = np.array(stage.fit(side).offset)
        out.append(v - along * (along @ v))
    return np.array(out)


def test_the_offset_of_a_controller_is_fitted_while_the_forearm_turns(tmp_path, monkeypatch):
    beside = []
    for side in range(2):
        along = rot.rotate(hand_in_device("steamvr_raw", side)[3:], np.array([0.0, 1.0, 0.0]))
        beside.append(OFFSET - along * (along @ OFFSET))
    stage = HandStage(declared="steamvr_raw")
    for f in twisting(OFFSET):
        stage.step(f)
    assert np.linalg.norm(beside, axis=1).min() > 0.015
    assert np.linalg.norm(offsets_of(stage) - beside, axis=1).max() < 0.008  # 22 mm without the fit
    assert "cm beside that of the convention" in stage.report()
    monkeypatch.setenv("MM_ROS_USERS", str(tmp_path))
    write_hands("ben", "steamvr_raw", stage.fitted())
    again = HandStage(declared="steamvr_raw")
    again.restore(read_hands("ben", "steamvr_raw"))
    assert np.linalg.norm(again.fitted().offsets, axis=1).min() > 0.01
    given = HandStage(declared="steamvr_raw")
    given.measure(1.6, 0.0, grips_given=True)
    for f in twisting(OFFSET):
        given.step(f)
    assert given.fit(0).offset == (0.0, 0.0, 0.0) and "the one that was set" in given.report()


def test_a_forearm_that_does_not_turn_gives_no_offset():
    stage = HandStage(declared="steamvr_raw")
    for f in twisting(OFFSET, 300, twist=0.0):
        stage.step(f)
    assert stage.fit(0).offset == (0.0, 0.0, 0.0) and stage.fitted().offsets == [None, None]


def test_a_stored_offset_that_is_no_offset_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MM_ROS_USERS", str(tmp_path))
    path = write_hands("ben", "steamvr_raw", FittedHands([None, None], [[0.5, 0.0, 0.0], None]))
    with pytest.raises(MmRosError, match="left_offset"):
        read_hands("ben", "steamvr_raw")
    path.write_text("version: 1\nleft: [0.8, 0.0, -0.6]\nright: null\n")  # of an earlier version
    assert read_hands("ben", "steamvr_raw") == FittedHands([[0.8, 0.0, -0.6], None], [None, None])


def test_a_fit_is_bounded_and_ignores_a_hand_that_is_lost():
    frames, _ = recording("openxr_grip", 2.0, mounting=(2.5, 0.0, 0.0))
    stage = HandStage(declared="openxr_grip")
    for f in frames:
        f.state[LEFT_HAND_ROLE] = LOST
        stage.step(f)
    assert stage.fit(0) is None and stage.fit(1) is not None
    assert np.isfinite(frames[-1].rotations).all()


def test_exchanged_controllers_are_found_within_half_a_second_and_swapped():
    frames, truth = recording("steamvr_raw", 2.0, exchanged=True)
    stage = HandStage(declared="steamvr_raw")
    out, found_s = [], None
    for f in frames:
        out.append(stage.step(f))
        if stage.exchanged and found_s is None:
            found_s = (f.stamp_ns - frames[0].stamp_ns) * 1e-9
    assert found_s is not None and found_s < 0.5 and "exchanged" in stage.report()
    assert all((f.state[HANDS] == LOST).all() for f in out[:10])  # no stage acts on wrong sides
    assert np.median(bend_deg(out[90:], truth[90:])) < 15
    frames, _ = recording("steamvr_raw", 2.0)
    stage = HandStage(declared="steamvr_raw")
    assert all((stage.step(f).state[HANDS] == TRACKED).all() for f in frames) and not stage.exchanged


def test_a_table_names_its_convention_by_option(tmp_path, capsys):
    frames, truth = recording("openxr_grip", 3.0)
    lines = [",".join(COLUMNS)]
    for f in frames:
        for role, name in enumerate(("head", "left_hand", "right_hand")):
            w, x, y, z = f.rotations[role]
            lines.append(
                f"{(f.stamp_ns - 10**9) * 1e-9},{name},{','.join(map(str, f.positions[role]))},{x},{y},{z},{w}"
            )
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    for options in ([], ["--hand-pose", "openxr_grip"]):
        folder = tmp_path / f"session{len(options)}"
        assert main(["session", "from-csv", str(table), "-o", str(folder), "--head-height", "1.68", *options]) == 0
        assert "openxr_grip" in capsys.readouterr().err
        assert np.median(bend_deg(read_session(folder).frames, truth)) < 15


def test_an_unknown_name_lists_the_conventions():
    with pytest.raises(MmRosError, match="steamvr_raw"):
        hand_pose("glove")
    with pytest.raises(MmRosError):
        replace(HandSettings(), hand_pose="glove")
