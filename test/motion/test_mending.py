"""Marker errors are bridged; correct motion does not change."""

from dataclasses import replace

import numpy as np
from bvh_dialects import DIALECTS, walk

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_FOOT, LEFT_UPPER_LEG, RIGHT_UPPER_LEG, SPINE
from mm_ros.cli.main import main
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.cleaning.markers import mended, with_repaired_legs
from mm_ros.motion.importing.export import to_bvh


def test_feet_that_point_backward_for_a_moment_are_mended():
    clip = walk()
    wrong = clip.rotations.copy()
    half_turn = np.array([0.0, 0.0, 0.0, 1.0])
    wrong[40:48, LEFT_FOOT] = rot.multiply(wrong[40:48, LEFT_FOOT].astype(float), half_turn)
    mended = with_repaired_legs(replace(clip, rotations=wrong))
    away = rot.log(rot.multiply(rot.inverse(clip.rotations.astype(float)), mended.rotations.astype(float)))
    assert np.abs(away).max() < 0.35  # near what it was
    touched = np.flatnonzero((mended.rotations != wrong).any((1, 2)))
    assert (touched[0], touched[-1]) == (38, 49)  # what leads there and back, and one more, too
    assert (mended.rotations[:30] == clip.rotations[:30]).all() and (mended.rotations[60:] == clip.rotations[60:]).all()
    assert (with_repaired_legs(clip).rotations == clip.rotations).all()
    wrong[20:, LEFT_FOOT] = rot.multiply(clip.rotations[20:, LEFT_FOOT].astype(float), half_turn)
    assert (with_repaired_legs(replace(clip, rotations=wrong)).rotations == wrong).all()  # no moment: left alone


def test_a_rotation_that_jumps_and_comes_back_is_mended_and_nothing_else():
    clip = walk()
    wrong = clip.rotations.copy()
    wrong[40, LEFT_FOOT] = rot.multiply(wrong[40, LEFT_FOOT].astype(float), rot.exp(np.array([0.0, 0.6, 0.0])))
    wrong[70:73, HEAD] = rot.multiply(wrong[70:73, HEAD].astype(float), rot.exp(np.array([0.5, 0.0, 0.0])))
    out = mended(replace(clip, rotations=wrong))
    away = rot.log(rot.multiply(rot.inverse(clip.rotations.astype(float)), out.rotations.astype(float)))
    assert np.abs(away).max() < 0.05
    touched = np.flatnonzero((out.rotations != wrong).any((1, 2)))
    assert set(touched) <= {*range(38, 43), *range(67, 76)}
    assert (mended(clip).rotations == clip.rotations).all()


def test_hips_that_jump_leave_the_legs_where_they_were():
    clip = walk()
    jump = rot.exp(np.array([0.5, 0.0, 0.0]))
    wrong = clip.rotations.astype(float)
    wrong[40, HIPS] = rot.multiply(wrong[40, HIPS], jump)
    for joint in (SPINE, LEFT_UPPER_LEG, RIGHT_UPPER_LEG):  # they make up for it, as a solver lets them
        wrong[40, joint] = rot.multiply(rot.inverse(jump), wrong[40, joint])
    out = mended(replace(clip, rotations=wrong.astype(np.float32)))
    p, q = clip.globals()
    p_out, q_out = out.globals()
    assert np.abs(p - p_out).max() < 0.01
    assert np.abs(rot.log(rot.multiply(rot.inverse(q), q_out))).max() < 0.05


def test_a_foot_with_its_sole_up_is_turned_over_and_its_toes_stay():
    clip = walk()
    bone = clip.skeleton.offsets[LEFT_FOOT + 1]
    half = np.concatenate([[0.0], bone / np.linalg.norm(bone)])
    wrong = clip.rotations.astype(float)
    wrong[30:, LEFT_FOOT] = rot.multiply(wrong[30:, LEFT_FOOT], half)
    out = mended(replace(clip, rotations=wrong.astype(np.float32)))
    (_, q), (p_wrong, _), (p, q_out) = clip.globals(), replace(clip, rotations=wrong).globals(), out.globals()
    assert np.abs(rot.log(rot.multiply(rot.inverse(q), q_out)))[:, LEFT_FOOT].max() < 0.05
    assert np.abs(p - p_wrong).max() < 1e-3


def test_the_report_of_an_import_names_repaired_frames(tmp_path, capsys):
    clip = walk()
    wrong = clip.rotations.copy()
    wrong[40, LEFT_FOOT] = rot.multiply(wrong[40, LEFT_FOOT].astype(float), rot.exp(np.array([0.0, 0.6, 0.0])))
    write_bvh(to_bvh(replace(clip, rotations=wrong), DIALECTS["Xsens"]), tmp_path / "walk_01.bvh")
    command = ["import", str(tmp_path / "walk_01.bvh"), "-o", str(tmp_path / "a.mmdb"), "--mirror", "--quiet"]
    assert main(command) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "markers:" in line]
    assert len(lines) == 1 and "frame(s) repaired" in lines[0]
    assert "frame(s) repaired" in (tmp_path / "a.report.md").read_text()
