"""The evaluation is deterministic, equals brute force, and is correct on motion with known metrics."""

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest
from bvh_dialects import DIALECTS, walks

from mm_ros.avatar import AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, LEFT_FOOT
from mm_ros.cli import evaluate as command
from mm_ros.cli.main import main
from mm_ros.cli.output import finite
from mm_ros.evaluation import explain, measure, run, table
from mm_ros.evaluation.evaluate import Evaluation, clips_in, evaluate
from mm_ros.evaluation.report import line_plot, peaks, write_report
from mm_ros.evaluation.rows import CHAIN_ROWS, chosen
from mm_ros.evaluation.still import StillStage, stillest_row
from mm_ros.maths import rotations as rot
from mm_ros.motion.build import build_database
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database, write_database
from mm_ros.motion.importing.export import to_bvh
from mm_ros.motion.procedural import make_clips
from mm_ros.sessions.session import write_session
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.landmark_simulation import COMMON
from mm_ros.tracking.session_making import session_of_clips
from mm_ros.tracking.simulation import Simulation, simulate_clip


@pytest.fixture(scope="module")
def clips() -> list[Clip]:
    made = make_clips(3)
    walk = next(c for c in made if c.name.startswith("walk") and c.seconds > 5)
    turn = next(c for c in made if c.name.startswith("turn") and c.seconds > 3)
    return [walk.cut(0, 240), turn.cut(0, 200)]


def evaluated(clips: list[Clip], rows: str = "ours", jobs: int = 1, keep: bool = False, **options) -> Evaluation:
    simulation = Simulation(**options)
    return evaluate([], default_database_path(), chosen(rows), AvatarSettings(), simulation, jobs,
                    lambda *_: None, keep, clips)  # fmt: skip


@pytest.fixture(scope="module")
def result(clips):
    return evaluated(clips, "", keep=True)


def test_the_same_input_gives_the_same_bytes(clips, result):
    assert evaluated(clips).table["hash"] == result.table["hash"]


def test_two_jobs_give_the_table_of_one(clips):
    one, two = (evaluated(clips, "ours,drag", jobs).table for jobs in (1, 2))
    for t in (one, two):
        for m in (*t["summary"].values(), *(r for c in t["clips"] for r in c["rows"].values())):
            m.pop("step_ms", None)  # wall time
    assert json.dumps(finite(one)) == json.dumps(finite(two))


def test_brute_force_gives_the_very_same_poses(result):
    assert result.table["brute_equals_ours"] is True


def test_all_rows_are_there(result):
    assert set(result.table["summary"]) == {
        "ours", "steps", "chance", "ground_truth", "database", "fused", "true_facing", "hmd_forward", "drag",
        "no_foot_lock", "brute",
    }  # fmt: skip


def test_true_feet_are_the_ceiling_of_the_estimate(clips):
    summary = evaluated(clips, "ours,no_steps,true_feet").table["summary"]
    ours, none, ceiling = (summary[n]["ankle_error_cm"]["median"] for n in ("ours", "no_steps", "true_feet"))
    assert ceiling < ours < none
    assert summary["true_feet"]["same_foot"] == 1.0


def test_noise_needs_a_seed_to_differ(clips):
    same = [evaluated(clips[:1], noise_m=0.002, seed=4).table["hash"] for _ in range(2)]
    other = evaluated(clips[:1], noise_m=0.002, seed=5).table["hash"]
    assert same[0] == same[1] != other


def test_dragging_a_still_pose_skates_and_matching_does_not(result):
    summary = result.table["summary"]
    assert summary["drag"]["skate_ratio"] > 3 * summary["ours"]["skate_ratio"]


def test_a_locked_foot_stays_and_knees_bend_one_way(result):
    ours = result.table["summary"]["ours"]
    assert 0.0 < ours["locked_motion_m"]["p99"] < 0.005
    assert ours["knee_beyond_straight_deg"]["p99"] < 0.1
    assert "locked_motion_m" not in result.table["summary"]["drag"]  # this row locks no foot


def test_ground_truth_has_no_error_columns(result):
    assert "root_error_m" not in result.table["summary"]["ground_truth"]


def test_a_foot_that_slides_two_centimetres_a_second_drifts_so(clips):
    clip = clips[0]
    positions = np.tile(clip.skeleton.rest_positions(), (120, 1, 1)).astype(np.float64)
    positions[:, :, 0] += 0.02 * np.arange(120)[:, None] / 60
    truth = measure.Truth(positions, np.tile([1.0, 0, 0, 0], (120, 23, 1)), np.zeros(120), np.ones((120, 2), bool))
    assert measure.of_truth(truth, np.inf).values["stance_drift_m"].max() == pytest.approx(0.02 * 119 / 60, abs=1e-6)


def test_a_head_turned_by_thirty_degrees_costs_headset_forward_thirty_degrees(clips):
    standing = next(c for c in make_clips(3) if c.name.startswith("idle")).cut(0, 180)
    rotations = standing.rotations.copy()
    rotations[:, HEAD] = rot.multiply(rot.from_yaw(np.full(180, np.radians(30))), rotations[:, HEAD])
    turned = Clip("turned", standing.rate, standing.skeleton, standing.positions, rotations)
    summary = evaluated([turned], "hmd_forward").table["summary"]
    assert summary["hmd_forward"]["predicted_facing_error_deg"]["median"] == pytest.approx(30, abs=6)


def test_one_pop_is_counted_once(clips):
    positions, _ = clips[0].globals()
    positions = positions.astype(np.float64)
    limit = 1.0 * np.percentile(np.abs(np.diff(positions, n=2, axis=0)) * 3600, 99.99) * 2
    calm = measure.of_body(positions, np.zeros((len(positions), 2), bool), 4.0, limit).numbers["pops_per_min"]
    positions[100:, LEFT_FOOT] += 0.3
    popped = measure.of_body(positions, np.zeros((len(positions), 2), bool), 4.0, limit).numbers["pops_per_min"]
    assert (popped - calm) * len(positions) / 60 / 60 == pytest.approx(1.0)


def test_json_is_without_nan(result):
    json.dumps(finite(result.table), allow_nan=False)


def test_the_table_names_every_row(result):
    text = table.text(table.lines(result.table["summary"]))
    assert all(name in text for name in result.table["summary"])
    assert len({len(line) for line in text.splitlines()}) == 1


def test_an_unknown_row_is_refused_with_the_rows():
    with pytest.raises(MmRosError, match=r"'best'.*no_foot_lock"):
        chosen("best")


def test_a_given_facing_network_is_evaluated():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for given, model in (([], ""), (["--facing", "mine.onnx"], "mine.onnx")):
        assert command._settings(parser.parse_args(["take.bvh", *given])).orientation.model == model


def test_the_report_is_one_file_with_pictures_of_the_largest_errors(result, tmp_path):
    pytest.importorskip("PIL", reason="pillow is not installed")
    write_report(tmp_path / "r.html", result)
    text = (tmp_path / "r.html").read_text()
    assert text.count("data:image/png;base64,") >= 2
    assert "http" not in text
    assert result.table["hash"] in text


def test_a_plot_keeps_a_single_high_value():
    values = np.zeros(5000)
    values[1234] = 7.0
    assert "maximum 7.0" in line_plot("x", [values], ["a"], 1.0)


def test_peaks_keep_their_distance():
    assert peaks(np.array([0.0, 5, 4, 0, 0, 3, 0]), 2, 3) == [1, 5, 3]


def test_the_still_pose_stands_and_has_the_desired_facing():
    database = read_database(default_database_path())
    row = stillest_row(database)
    assert database.contacts[row].all()
    avatar = run.make_avatar(CHAIN_ROWS[0], AvatarSettings(), database, from_skeleton(database.skeleton))
    assert StillStage(database, 1.0).skeleton_hash == avatar.matcher.skeleton_hash


def test_an_explanation_adds_up(clips):
    database = read_database(default_database_path())
    avatar = run.make_avatar(CHAIN_ROWS[0], AvatarSettings(), database, from_skeleton(clips[0].skeleton))
    e = explain.explain(simulate_clip(clips[0]), avatar, 2.0, 4)
    assert e.at <= 2.0
    assert sum(e.winner.by_feature.values()) == pytest.approx(e.winner.cost, rel=1e-5)
    assert e.winner.cost == pytest.approx(e.match.cost, rel=1e-3)
    assert len(e.runners_up) == 4
    assert [c.cost for c in e.runners_up] == sorted(c.cost for c in e.runners_up)


def test_explaining_a_moment_outside_is_refused(clips):
    database = read_database(default_database_path())
    avatar = run.make_avatar(CHAIN_ROWS[0], AvatarSettings(), database, from_skeleton(clips[0].skeleton))
    with pytest.raises(MmRosError, match="0 to 3"):
        explain.explain(simulate_clip(clips[0]), avatar, 99.0)


def test_fletchers_table_stands_beside_ours(result):
    head, theirs, *ours = result.table["beside_fletcher"]
    assert head[1:] == ["network", "fused", "true pelvis"]
    assert theirs[1:] == ["28.9", "16.7", "13.3"]
    assert ours[-1][-1] == "0.0"  # the row `true_facing` uses the true pelvis facing
    assert all(cell != "–" for line in ours for cell in line[1:])


def test_without_a_camera_there_is_no_table_of_fletcher(clips):
    assert evaluated(clips[:1]).table["beside_fletcher"] == []


def test_a_sessions_own_landmarks_are_fused(tmp_path):
    """The landmarks of a session that was written as a bag and read again correct the facing."""
    # The network error of this clip is larger than that of the camera; for clip "wander 1" it is not.
    clip = next(c for c in make_clips(3) if c.name == "wander 2").cut(0, 25 * 60)
    looks = Simulation(look_around_rad=float(np.radians(60)), grip_sd_rad=0.3, seed=5)
    write_session(tmp_path / "seen", session_of_clips([clip], looks, "seen", COMMON))
    write_session(tmp_path / "unseen", session_of_clips([clip], looks, "unseen"))

    def summary(name):
        return evaluate([tmp_path / name], default_database_path(), chosen("fused"), AvatarSettings(), Simulation(), 1,
                        lambda *_: None).table["summary"]  # fmt: skip

    seen = summary("seen")
    assert seen["fused"]["predicted_facing_error_deg"]["mean"] < seen["ours"]["predicted_facing_error_deg"]["mean"]
    assert "fused" not in summary("unseen")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["no/such.bvh"], "no/such.bvh: there is no such file"),
        ([".", "--model", "mine.onnx"], "it needs --rows learned"),
    ],
)
def test_a_mistake_is_reported_before_a_database_is_made(given, said, monkeypatch):
    made = "mm_ros.motion.default_database.default_database_path"
    monkeypatch.setattr(made, lambda *_: pytest.fail("made a database"))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(MmRosError, match=said):
        command.run(parser.parse_args(given))


def test_clips_that_are_part_of_the_database_are_named(tmp_path, capsys):
    """Clips are compared by motion: a renamed file and a part are found, another motion with the same name is not."""
    given = walks()
    known, other = given["walk 1.3"].cut(0, 240), replace(given["back 0.9"].cut(0, 240), name="walk 1.3")
    for name, clip in (("renamed", known), ("walk 1.3", other), ("part", known.cut(0, 150))):
        write_bvh(to_bvh(clip, DIALECTS["Xsens"]), tmp_path / f"{name}.bvh")
    write_database(build_database([known, given["side 0.5"].cut(0, 240)]), tmp_path / "my.mmdb")
    words = [str(tmp_path / f"{n}.bvh") for n in ("renamed", "walk 1.3", "part")] + ["--database"]
    words += [str(tmp_path / "my.mmdb"), "--rows", "ours", "--json", str(tmp_path / "t.json")]
    assert main(["evaluate", *words]) == 0
    assert json.loads((tmp_path / "t.json").read_text())["in_database"] == ["renamed", "part"]
    assert "warning: 2 of 3 clips are part of the database: renamed, part." in capsys.readouterr().err


def test_no_clip_of_another_seed_is_taken_for_one_of_the_database(clips):
    database = read_database(default_database_path())
    own = make_clips(0)[::10]
    assert clips_in(database, own) == [c.name for c in own]
    assert clips_in(database, clips) == []
