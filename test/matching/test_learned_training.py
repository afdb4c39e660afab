"""Training of the learned engine: it can stop and resume, is repeatable, and its file describes itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toys import desired, toy_database

torch = pytest.importorskip("torch", reason="training needs torch: mm_ros setup train")
onnx = pytest.importorskip("onnx", reason="training needs onnx: mm_ros setup train")

from mm_ros.base.errors import MmRosError
from mm_ros.base.sealed_onnx import unsealed
from mm_ros.body.skeleton import PARENTS
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.matching.model_file import LearnedModel
from mm_ros.matching.training import growth
from mm_ros.matching.training import train as training
from mm_ros.matching.training.data import QuerySampler, motion_data
from mm_ros.matching.training.networks import Body, Sizes, angles
from mm_ros.matching.training.train import Options, Training, expected_s, finish
from mm_ros.maths import rotations as rot

DATABASE = toy_database(2.0)
OPTIONS = Options(
    sizes=Sizes(latent=6, width=32), pose_steps=25, stepper_steps=12, projector_steps=12,
    pose_batch=64, stepper_batch=16, projector_batch=64, pool=500,
)  # fmt: skip


def silent(_line: str) -> None: ...


@pytest.fixture(scope="module")
def trained():
    return Training(DATABASE, OPTIONS, None, silent).run()


@pytest.fixture(scope="module")
def written(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("learned") / "toy.onnx"
    finish(trained, path, "somebody's motion")
    return path


def test_training_leaves_the_arithmetic_of_the_process_as_it_was(trained):
    """Otherwise denormal numbers become 0 in one process of a graph, and not in another."""
    assert (np.array([1e-39], np.float32) * np.float32(0.5))[0] > 0.0


def weights_of(trained):
    return np.concatenate([p.detach().numpy().ravel() for p in trained.networks.parameters()])


def tampered(path, tmp_path, **changes):
    model = onnx.load_from_string(unsealed(path.read_bytes()))
    for entry in model.metadata_props:
        entry.value = changes.get(entry.key, entry.value)
    out = tmp_path / "tampered.onnx"
    onnx.save(model, out)
    return out


class TestTraining:
    def test_one_seed_gives_the_same_networks(self, trained):
        again = Training(DATABASE, OPTIONS, None, silent).run()
        np.testing.assert_array_equal(weights_of(again), weights_of(trained))
        other = Training(DATABASE, replace(OPTIONS, seed=1), None, silent).run()
        assert not np.array_equal(weights_of(other), weights_of(trained))

    @pytest.mark.parametrize(("stage", "at"), [("pose", 10), ("stepper", 5), ("projector", 7)])
    def test_stopped_and_gone_on_is_as_if_never_stopped(self, trained, tmp_path, monkeypatch, stage, at):
        checkpoint = tmp_path / "x.checkpoint"
        monkeypatch.setattr(training, "SAVE_EVERY_S", -1.0)

        class Stop(Exception):
            pass

        first = Training(DATABASE, OPTIONS, checkpoint, silent)
        save = first._save

        def stop(name, step, optimizer):
            save(name, step, optimizer)
            if (name, step) == (stage, at):
                raise Stop

        monkeypatch.setattr(first, "_save", stop)
        with pytest.raises(Stop):
            first.run()
        said = []
        again = Training(DATABASE, OPTIONS, checkpoint, said.append).run()
        assert said[0].startswith(f"resuming at {stage} {at}/")
        np.testing.assert_array_equal(weights_of(again), weights_of(trained))

    def test_a_checkpoint_of_another_training_is_refused(self, tmp_path):
        checkpoint = tmp_path / "x.checkpoint"
        Training(DATABASE, replace(OPTIONS, pose_steps=1, stepper_steps=1, projector_steps=1), checkpoint, silent).run()
        with pytest.raises(MmRosError, match="another training"):
            Training(DATABASE, OPTIONS, checkpoint, silent).run()

    def test_learns(self, trained, written):
        figures = LearnedModel(written).figures()
        assert figures["rebuilt"]["joints_cm_mean"] < 2.0  # the toy database has little variety
        assert figures["rebuilt"]["contacts_right"] > 0.9

    def test_progress_is_reported_in_centimetres_and_degrees(self):
        said = []
        Training(DATABASE, OPTIONS, None, said.append).run()
        for stage in training.STAGES:
            last = [s for s in said if s.startswith(stage)][-1]
            assert " cm " in last
            assert "°" in last


class TestGrowth:
    def test_trains_each_share_with_each_width_and_first_reports_the_duration(self, monkeypatch):
        monkeypatch.setattr(growth, "WIDTHS", (8, 16))
        monkeypatch.setattr(growth, "expected_s", lambda database, options: 60.0)
        monkeypatch.setattr(growth, "Options", lambda: OPTIONS)
        said = []
        rows = growth.growth(DATABASE, 0.5, said.append)
        assert said[0] == "4 trainings of 12 + 6 + 6 steps: about 4 minutes here"
        assert [(r["share"], r["width"]) for r in rows] == [(0.25, 8), (0.25, 16), (1.0, 8), (1.0, 16)]
        frames = [r["frames"] for r in rows]
        assert frames[0] == frames[1] >= 0.25 * len(DATABASE)
        assert frames[2] == frames[3] == len(DATABASE)
        assert rows[3]["file_mb"] > rows[2]["file_mb"]
        assert all(r["rebuilt"]["joints_cm_mean"] < 10 for r in rows)

    def test_a_part_of_a_database_is_whole_clips_of_it(self):
        part = growth.clips_of(DATABASE, 0.25, seed=2)
        for i, name in enumerate(part.clip_names):
            whole = DATABASE.clip_names.index(name)
            own = slice(part.range_starts[i], part.range_stops[i])
            theirs = slice(DATABASE.range_starts[whole], DATABASE.range_stops[whole])
            np.testing.assert_array_equal(part.features[own], DATABASE.features[theirs])
            np.testing.assert_array_equal(part.rotations[own], DATABASE.rotations[theirs])

    def test_expects_of_each_stage_its_steps_at_the_pace_that_was_tried(self, monkeypatch):
        class Tried:
            def __init__(self, database, options, checkpoint, say):
                self.seconds = {"pose": 0.1 * options.pose_steps, "stepper": 0.2 * options.stepper_steps,
                                "projector": 0.3 * options.projector_steps}  # fmt: skip

            def run(self):
                return self

        monkeypatch.setattr(training, "Training", Tried)
        assert expected_s(DATABASE, OPTIONS) == pytest.approx(0.1 * 25 + 0.2 * 12 + 0.3 * 12)


class TestData:
    def test_kinematics_in_torch_are_those_of_numpy(self):
        data = motion_data(DATABASE)
        body = Body(DATABASE.skeleton)
        p, g, _ = body(torch.from_numpy(data.codes[::50]))
        positions, rotations = np.array(DATABASE.positions[::50]), np.array(DATABASE.rotations[::50])
        positions[:, 0], rotations[:, 0] = 0, (1, 0, 0, 0)
        true_p, true_q = rot.forward_kinematics(PARENTS, positions, rotations)
        np.testing.assert_allclose(p.numpy(), true_p[:, 1:], atol=1e-5)
        true = torch.from_numpy(rot.to_matrix(true_q[:, 1:]))
        assert float(angles(g, true).max()) < 0.1

    def test_root_velocities_lead_from_frame_to_frame(self):
        data = motion_data(DATABASE)
        a, b = int(DATABASE.range_starts[8]), int(DATABASE.range_stops[8])
        at, yaw = np.array(DATABASE.positions[a, 0, :2], float), rot.yaw_of(DATABASE.rotations[a, 0])
        for row in range(a, b - 1):
            x, y, turn = data.codes[row, pc.ROOT_VELOCITY] / DATABASE.rate
            at += (np.cos(yaw) * x - np.sin(yaw) * y, np.sin(yaw) * x + np.cos(yaw) * y)
            yaw += turn
        np.testing.assert_allclose(at, DATABASE.positions[b - 1, 0, :2], atol=1e-3)

    def test_answers_are_frames_that_the_condition_allows(self):
        data = motion_data(DATABASE)
        asking = QuerySampler(data, DATABASE.layout.column_weights(), 3)
        questions = asking.pool(0, 400)
        tags = np.asarray(DATABASE.tags)[questions.answers]
        width, count = DATABASE.layout.size, len(DATABASE.tag_names)
        conditions = questions.inputs[:, width:].reshape(-1, 3, count).astype(bool)
        have = (tags[:, None] >> np.arange(count, dtype=np.uint64)) & np.uint64(1)
        have = have.astype(bool)
        assert (have | ~conditions[:, 0]).all()
        assert (~have | ~conditions[:, 2]).all()
        some = conditions[:, 1].any(1)
        assert (have & conditions[:, 1]).any(1)[some].all()
        assert conditions[:, 0].any()
        again = QuerySampler(data, DATABASE.layout.column_weights(), 3).pool(0, 400)
        np.testing.assert_array_equal(again.inputs, questions.inputs)


class TestFile:
    def test_gives_what_torch_gives(self, trained, written):
        model = LearnedModel(written)
        state = trained.states[40]
        net = trained.networks
        with torch.no_grad():
            given = torch.from_numpy(state[None])
            pose = net["pose"].decompressor(given)[0].numpy()
            after = net["stepper"](given)[0].numpy()
        np.testing.assert_allclose(model.pose(state), pose, atol=0.02)  # weights have 16 bits
        np.testing.assert_allclose(model.step(state)[0], after, atol=0.02)

    def test_describes_its_motion(self, written):
        model = LearnedModel(written)
        assert model.metadata["licence"] == "somebody's motion"
        assert model.digest.layout.hash == DATABASE.layout.hash
        assert model.digest.skeleton.hash == DATABASE.skeleton.hash
        assert model.digest.bands == DATABASE.bands
        assert set(np.unique(model.digest.tags)) == set(np.unique(DATABASE.tags))

    def test_needs_no_database(self, written):
        model = LearnedModel(written)
        stage = MatcherStage(MatcherSettings(engine="learned"), model.digest, learned=model)
        for i in range(120):
            pose, _ = stage.step(desired(i / 60, (0.02 * i, 0.0), (1.2, 0.0)))
        assert np.isfinite(pose.rotations).all()
        assert abs(pose.root[0] - 0.02 * 119) <= 0.1 + 1e-6

    def test_nothing_it_is_fed_makes_it_explode(self, trained, written):
        model, rng = LearnedModel(written), np.random.default_rng(0)
        low, high = trained.states.min(0), trained.states.max(0)
        room = 0.1 * (high - low) + 1e-3
        for size in (1.0, 100.0, 1e9):
            asked = (size * rng.standard_normal(model._query.shape[1])).astype(np.float32)
            state = model.project(asked)
            for _ in range(200):
                state, code = model.step(state)
                assert (state >= low - room).all()
                assert (state <= high + room).all()
                assert np.isfinite(code).all()

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"version": "99"}, "has version 99; this mm_ros reads 1. Update mm_ros"),
            ({"version": "0"}, "Train it again"),
            ({"kind": "facing"}, "kind 'facing', expected 'learned'"),
            ({"layout_hash": "0" * 16}, "trained for feature layout 0000000000000000"),
            ({"skeleton_hash": "0" * 16}, "has skeleton 0000000000000000"),
            ({"pose_width": "141"}, "outputs poses of 141 numbers"),
            ({"digest": "AAAA"}, "is broken"),
            ({"tag_names": '["band_upright"]'}, "has 27 features and 1 tags, its networks take queries of 36"),
            ({"weights": "[1.0, 2.0]"}, r"its weights have shape \(2,\)"),
        ],
    )
    def test_another_is_refused_with_a_sentence(self, written, tmp_path, change, said):
        with pytest.raises(MmRosError, match=said):
            LearnedModel(tampered(written, tmp_path, **change))

    def test_a_facing_network_is_none(self):
        from mm_ros.facing.model_file import MODELS

        with pytest.raises(MmRosError, match="kind 'facing', expected 'learned'"):
            LearnedModel(MODELS / "facing.onnx")
