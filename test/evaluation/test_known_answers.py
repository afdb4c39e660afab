"""Metrics of feet, wrists and body trackers on motion whose figures are known."""

import json

import numpy as np
import pytest

from mm_ros.body.skeleton import LEFT_FOOT
from mm_ros.body.types import TRACKED, Calibration, TrackerFrame
from mm_ros.cli.main import main
from mm_ros.evaluation import footfalls, measure
from mm_ros.evaluation.footfalls import Feet, feet_of
from mm_ros.evaluation.reference import Device, arm_of_user, fit_offset
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.importing.export import to_bvh
from mm_ros.sessions.session import Session, write_session
from mm_ros.sessions.tables import COLUMNS
from mm_ros.tracking.simulation import Simulation, simulate_clip
from mm_ros.tracking.sources.synthetic import user_clip

DT = 1 / 60
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


def stepping(seconds: float, begins: list[float], length: float = 0.5, swing: float = 0.4) -> np.ndarray:
    """One foot (F, 3) that moves forward by `length` in `swing` seconds from each time on, and stands otherwise."""
    t = np.arange(round(seconds / DT)) * DT
    x = np.zeros(len(t))
    for b in begins:
        u = np.clip((t - b) / swing, 0, 1)
        x += length * (u - np.sin(2 * np.pi * u) / (2 * np.pi))
    return np.stack([x, np.zeros_like(x), np.zeros_like(x)], -1)


def test_each_step_is_one_touchdown_at_the_end_of_its_swing():
    begins = [0.5, 1.7, 2.9]
    foot = stepping(4.0, begins)
    found = footfalls.touchdowns(foot, footfalls.smoothed_speed(foot, DT), DT)
    np.testing.assert_allclose(found, np.array(begins) + 0.4, atol=0.05)


def test_a_short_twitch_is_no_footfall():
    foot = stepping(2.0, [0.5], length=0.05, swing=0.2)
    assert footfalls.smoothed_speed(foot, DT).max() > footfalls.SWING_SPEED
    assert len(footfalls.touchdowns(foot, footfalls.smoothed_speed(foot, DT), DT)) == 0


def test_a_lifted_foot_that_returns_is_a_footfall():
    turn = 2 * np.pi * np.clip((np.arange(180) * DT - 0.5) / 0.8, 0, 1)
    foot = 0.15 * np.stack([np.sin(turn), np.zeros(180), 1 - np.cos(turn)], -1)
    assert len(footfalls.touchdowns(foot, footfalls.smoothed_speed(foot, DT), DT)) == 1


USER = (np.array([1.0, 3.0, 5.0]), np.array([2.0, 4.0, 6.0]))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ((USER[0] + 0.05, USER[1] + 0.05), {"footfall_f1": 1, "same_foot": 1, "phantom_steps_per_minute": 0}),
        (USER[::-1], {"footfall_f1": 0, "same_foot": 0, "same_foot_matches": 6, "phantom_steps_per_minute": 0}),
        ((USER[0], np.zeros(0)), {"footfall_f1": 2 / 3, "same_foot": 1, "steps_per_minute": 18}),
        ((USER[0] + 0.25, USER[1]), {"footfall_f1": 0.5, "same_foot_matches": 6, "phantom_steps_per_minute": 0}),
        ((USER[0] + 0.35, USER[1]), {"footfall_f1": 0.5, "same_foot_matches": 3, "phantom_steps_per_minute": 18}),
    ],
)
def test_footfalls_are_matched_by_foot_and_time(other, expected):
    counts, delays = footfalls.agreement(Feet(None, USER), Feet(None, other), 10.0)
    got = footfalls.figures(counts, delays)
    assert {k: got[k] for k in expected} == pytest.approx(expected)
    assert got["true_steps_per_minute"] == pytest.approx(36)


def test_a_late_avatar_has_a_positive_delay():
    counts, delays = footfalls.agreement(Feet(None, USER), Feet(None, (USER[0] + 0.04, USER[1] + 0.06)), 10.0)
    assert footfalls.figures(counts, delays)["footfall_delay_s"] == pytest.approx(0.05)


def test_contact_agreement_is_the_balanced_accuracy():
    user = np.tile([[1.0, 1.0]] * 3 + [[0.0, 0.0]], (10, 1))  # still for three quarters of the time
    always = np.ones_like(user)
    counts = [footfalls.agreement(Feet(user, None), Feet(o, None), 1.0)[0] for o in (user, always, 1 - user)]
    assert [footfalls.figures(c, np.zeros(0))["contact_agreement"] for c in counts] == [1.0, 0.5, 0.0]


def test_chance_is_below_the_truth_against_itself():
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(0.4, 0.9, 60))
    user = Feet(None, (times[::2], times[1::2]))
    counts = footfalls.chance(user, user, float(times[-1] + 1), DT)
    assert 0.05 < footfalls.figures(counts, np.zeros(0))["footfall_f1"] < 0.5


def test_the_offset_of_a_strap_is_found_and_removed():
    rng = np.random.default_rng(0)
    joint_q = rot.exp(np.cumsum(rng.normal(0, 0.02, (400, 3)), 0))
    joint_p = np.cumsum(rng.normal(0, 0.01, (400, 3)), 0)
    strap_p, strap_q = np.array([0.05, -0.03, 0.1]), rot.exp(np.array([0.3, 1.0, -2.0]))
    p = joint_p + rot.rotate(joint_q, np.tile(strap_p, (400, 1)))
    q = rot.multiply(joint_q, np.tile(strap_q, (400, 1)))
    offset = fit_offset(p, q, joint_p, joint_q, np.arange(400) / 60)
    assert offset.centimetres == pytest.approx(np.linalg.norm(strap_p) * 100)
    assert offset.degrees == pytest.approx(np.degrees(np.linalg.norm([0.3, 1.0, -2.0])))
    back_p, back_q = offset.joint(p, q)
    np.testing.assert_allclose(back_p, joint_p, atol=1e-9)
    assert measure.m.rotation_error_deg(back_q, joint_q).max() < 1e-4


def test_a_gap_of_a_device_is_unknown_and_the_rest_is_interpolated():
    stamps = np.array([0, 100, 200, 1200, 1300]) * 1_000_000
    device = Device(stamps, np.arange(5.0)[:, None] * np.ones(3), np.tile(IDENTITY, (5, 1)))
    p, _ = device.at(np.array([50, 150, 700, 1250, 1400]) * 1_000_000)
    np.testing.assert_allclose(p[:, 0], [0.5, 1.5, np.nan, 3.5, np.nan])


@pytest.mark.parametrize(
    ("rotation", "bend", "of_limit"),
    [((0.5, 0, 0), 0.5, 0.5 / 1.4), ((0, 0, 0.7), 0.7, 1.0), ((0, 0.9, 0), 0.0, 0.0), ((0, 0, 0), 0.0, 0.0)],
)
def test_the_bend_of_the_wrist_leaves_out_its_twist(rotation, bend, of_limit):
    angle, limit = measure.wrist_bend(rot.exp(np.array([rotation], np.float64)))
    assert angle[0] == pytest.approx(np.degrees(bend)) and limit[0] == pytest.approx(of_limit, abs=1e-9)


def hands(left: tuple, right: tuple, n: int = 60) -> list[TrackerFrame]:
    out = []
    for i in range(n):
        frame = TrackerFrame(round(i * 1e9 / 90))
        frame.positions[:3] = (0, 0, 1.68), left, right
        frame.state[:3] = TRACKED
        out.append(frame)
    return out


def test_the_arm_is_measured_in_a_t_pose_and_else_estimated():
    spread = hands((0, 0.85, 1.4), (0, -0.85, 1.4))
    assert arm_of_user(spread, Calibration()) == pytest.approx(0.53 / 1.40 * 1.54)
    hanging = hands((0, 0.2, 0.8), (0, -0.2, 0.8))
    assert arm_of_user(hanging, Calibration()) == pytest.approx(0.53, abs=0.01)
    assert arm_of_user(hanging, Calibration(arm_span=1.70)) == pytest.approx(0.53 / 1.40 * 1.54)


def write_user(path, seconds: float, bodies: bool = True) -> np.ndarray:
    """Table of a synthetic user with straps on waist and feet, and an unknown role. Returns the true feet (F, 2, 3)."""
    clip = user_clip(seconds, seed=2)
    track = simulate_clip(clip, Simulation(waist=True, feet=True))
    strap_q = rot.exp(np.array([1.2, -0.4, 2.0]))
    lines = [",".join(COLUMNS)]
    roles = ("head", "left_hand", "right_hand", *(("waist", "left_foot", "right_foot", "tail") if bodies else ()))
    for i in range(len(track)):
        for r, role in enumerate(roles):
            p, q = track.positions[i, min(r, 5)], track.rotations[i, min(r, 5)]
            if r >= 3:
                p, q = p + rot.rotate(q, np.array([0.1, 0.02, -0.05])), rot.multiply(q, strap_q)
            numbers = (*p, *q[1:], q[0])
            lines.append(f"{i / 90:.6f},{role}," + ",".join(f"{v:.6f}" for v in numbers))
    path.write_text("\n".join(lines) + "\n")
    positions, _ = clip.globals()
    return positions[:, [LEFT_FOOT, LEFT_FOOT + 4]].astype(np.float64)


def evaluated(tmp_path, *words: str, rows: str = "ours") -> dict:
    out = tmp_path / "out.json"
    database = ["--database", str(default_database_path())]
    assert main(["evaluate", *words, *database, "--rows", rows, "--json", str(out)]) == 0
    return json.loads(out.read_text())


SPREAD = {"mean", "median", "p95", "p99"}
AGAINST_TRACKERS = ("ankle_error_cm", "hips_error_cm", "facing_error_deg", "predicted_facing_error_deg")
DISTRIBUTIONS = (*AGAINST_TRACKERS, "wrist_bend_deg", "hand_error_all_m", "head_error_m")
SHARES = ("contact_agreement", "footfall_f1", "same_foot", "wrist_limit_share", "reach_share", "solver_reach_share")
COUNTS = ("same_foot_matches", "steps_per_minute", "true_steps_per_minute", "phantom_steps_per_minute")


def assert_all_figures(summary: dict, without: tuple[str, ...] = ()) -> None:
    """All figures are written with a value, and those of `without`, whose truth is missing, as null."""
    ours = summary["ours"]
    assert {name for name in (*DISTRIBUTIONS, *SHARES, *COUNTS) if ours[name] is None} == set(without)
    for name in set(DISTRIBUTIONS) - set(without):
        assert set(ours[name]) == SPREAD and ours[name]["median"] <= ours[name]["p95"] <= ours[name]["p99"], name
    for name in set(SHARES) - set(without):
        assert 0 <= ours[name] <= 1, name
    assert all(ours[name] >= 0 for name in COUNTS)
    assert "footfall_delay_s" in ours
    for row in ("steps", "chance"):
        assert 0 <= summary[row]["footfall_f1"] <= 1 and "same_foot" in summary[row], row
    assert summary["chance"]["footfall_f1"] < 0.8


def test_motion_capture_gives_all_figures_beside_the_dragged_pose(tmp_path):
    write_bvh(to_bvh(user_clip(8.0, seed=2)), tmp_path / "user.bvh")
    summary = evaluated(tmp_path, str(tmp_path / "user.bvh"), rows="ours,drag")["summary"]
    assert_all_figures(summary)
    assert set(summary["drag"]["ankle_error_cm"]) == SPREAD
    assert abs(summary["ours"]["footfall_delay_s"]) <= 0.2
    assert set(summary["steps"]["ankle_error_cm"]) == SPREAD and 0 <= summary["steps"]["contact_agreement"] <= 1


def test_a_folder_of_tables_is_evaluated_against_its_body_trackers(tmp_path, capsys):
    folder = tmp_path / "recordings"
    folder.mkdir()
    feet = write_user(folder / "walk.csv", 8.0)
    (folder / "notes.csv").write_text("file,what\n")
    summary = (got := evaluated(tmp_path, str(folder)))["summary"]
    ours = summary["ours"]
    assert [c["name"] for c in got["clips"]] == ["walk"] and set(got["missing"]) <= {"footfall_delay_s"}
    said = capsys.readouterr()
    assert "skipped the unknown roles 'tail' (" in said.err and "left_foot" in said.out
    steps = sum(len(t) for t in feet_of(feet, DT).landings)
    assert ours["true_steps_per_minute"] == pytest.approx(steps / (8 / 60), rel=0.02) and steps >= 4
    assert_all_figures(summary)
    assert ours["head_error_m"]["median"] < 0.005
    assert ours["offsets"]["waist"]["mean_deg"] > 60
    followed = evaluated(tmp_path, str(folder / "walk.csv"), "--feed", "all")["summary"]["ours"]
    assert followed["ankle_error_cm"]["median"] != ours["ankle_error_cm"]["median"]


def test_marked_footfalls_are_the_truth_where_there_are_no_body_trackers(tmp_path):
    table, marks = tmp_path / "walk.csv", tmp_path / "walk.footfalls.csv"
    feet = feet_of(write_user(table, 8.0, bodies=False), DT).landings
    rows = [f"{t:.4f},{foot}" for foot, times in zip(("left", "right"), feet, strict=True) for t in times]
    marks.write_text("\n".join(["t,foot", *rows]) + "\n")
    got = evaluated(tmp_path, str(table))
    ours = got["summary"]["ours"]
    assert ours["true_steps_per_minute"] == pytest.approx(len(rows) / (8 / 60), rel=0.02)
    assert_all_figures(got["summary"], without=(*AGAINST_TRACKERS, "contact_agreement"))
    assert got["missing"]["ankle_error_cm"] == "needs trackers on both feet, or motion capture"
    marks.write_text("t,foot\n1.0,middle\n")
    assert main(["evaluate", str(table), "--footfalls", str(marks)]) == 2


def test_a_session_is_compared_with_the_body_trackers_that_it_holds(tmp_path):
    track = simulate_clip(user_clip(5.0, seed=2), Simulation(waist=True, feet=True), 10**9)
    frames = [track.frame(i) for i in range(len(track))]
    write_session(tmp_path / "worn", Session(frames))
    ours = evaluated(tmp_path, str(tmp_path / "worn"))["summary"]["ours"]
    assert set(ours["offsets"]) == {"waist", "left_foot", "right_foot"}
    assert ours["hips_error_cm"]["median"] < 20 and ours["true_steps_per_minute"] is not None


@pytest.mark.parametrize(("given", "said"), [("*.none", "no such file"), ("bad.csv", "columns")])
def test_a_wrong_path_is_refused_in_one_sentence(tmp_path, capsys, given, said):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    assert main(["evaluate", str(tmp_path / given), "--database", str(default_database_path())]) == 2
    assert said in capsys.readouterr().err


def test_the_bootstrap_interval_surrounds_the_figure_and_needs_several_recordings():
    rng = np.random.default_rng(1)
    parts = [measure.Measured(1.0, {"ankle_error_cm": rng.normal(8 + k % 3, 1, 100)}) for k in range(12)]
    low, high = measure.intervals(parts)["ankle_error_cm mean"]
    assert 8 < low < measure.pooled(parts)["ankle_error_cm"]["mean"] < high < 10
    assert measure.intervals(parts[:4]) == {}
