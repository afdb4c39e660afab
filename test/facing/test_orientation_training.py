"""The trainer: networks that are the same in torch and ONNX, the command."""

import argparse
from dataclasses import replace

import numpy as np
import pytest
from orientation_toys import degrees_apart, everyone, walker

torch = pytest.importorskip("torch", reason="training needs torch: mm_ros setup train")

from mm_ros.body.types import Calibration
from mm_ros.cli import train_orientation
from mm_ros.cli.main import main
from mm_ros.facing.model_file import MODELS, OnnxModel
from mm_ros.facing.orientation import OrientationSettings, OrientationStage
from mm_ros.facing.training import augment, paper
from mm_ros.facing.training.network import MIRRORED, FacingNetwork, NetworkPlan, loss, mirrored
from mm_ros.facing.training.onnx_graph import onnx_of, onnx_of_paper
from mm_ros.facing.training.recurrent import TICK, tick_of_frame
from mm_ros.facing.training.streams import streams_of
from mm_ros.facing.training.train import TrainOptions, fit, folds_of, pool_of
from mm_ros.facing.training.validate import KINDS, Errors, Truth, kinds_of, predictions
from mm_ros.tracking import simulation as sim

SMALL = TrainOptions(variants=2, epochs=2, batch=256, paper_steps=20, plan=NetworkPlan(32, 2, 2, memory=8))


def quiet(what, done, of):
    pass


def random_network(width, members):
    """Untrained network with normalization and biases that reveal a mistake."""
    torch.manual_seed(0)
    network = FacingNetwork(146, NetworkPlan(width, 2, members, 0))
    network.mean.normal_(0, 0.3)
    network.scale.uniform_(0.3, 2.0)
    for b in network.biases:
        torch.nn.init.normal_(b, 0, 0.3)
    network.round_to_half()
    return network


def test_the_network_prefers_neither_side():
    network = random_network(16, members=2)
    x = torch.randn(20, 146)
    with torch.no_grad():
        once, image = network(x), network(mirrored(x))
    assert torch.allclose(image, once * torch.tensor(MIRRORED), atol=1e-6)
    assert once[:, 0].abs().min() > 1e-4


def test_training_twice_gives_the_same_network():
    probes = augment.variant(walker(5, seed=99), augment.NONE, np.random.default_rng(0)).inputs()[0]
    answers = []
    for _ in range(2):
        out = fit(everyone(), SMALL, quiet).sequence(probes, np.full(len(probes), 1 / 60))
        answers.append(np.arctan2(out[:, 0], out[:, 1]))
    assert degrees_apart(*answers).max() < 0.2


def test_every_epoch_draws_variants_of_its_own():
    first, again, second = (pool_of(everyone(3), SMALL, quiet, epoch).inputs for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    n = min(len(first), len(second))
    assert not torch.equal(first[:n], second[:n])


def test_training_learns():
    motions = everyone()
    network = fit(motions, replace(SMALL, epochs=30), quiet)
    inputs, headings = augment.variant(motions[0], augment.NONE, np.random.default_rng(0)).inputs()
    out = network.sequence(inputs, np.full(len(inputs), 1 / 60))
    ours = degrees_apart(headings + np.arctan2(out[:, 0], out[:, 1]), motions[0].yaw).mean()
    assert ours < 0.6 * degrees_apart(headings, motions[0].yaw).mean()


@pytest.mark.parametrize("units", [0, 5])
def test_torch_and_onnx_answer_alike(tmp_path, units):
    """The ticks are those of torch, for the motion and for its mirror image."""
    network = remembering_network(units) if units else random_network(16, 3)
    rng = np.random.default_rng(1)
    x, dt = rng.normal(0, 4, (40, 146)).astype(np.float32), rng.uniform(0.005, 0.02, 40)
    metadata = {"kind": "facing", "version": "1", "layout_hash": "x", "tick_s": str(TICK)}
    (tmp_path / "n.onnx").write_bytes(onnx_of(network, metadata))
    model = OnnxModel(tmp_path / "n.onnx")
    assert model.remembers == bool(units)
    ours = network.sequence(x, dt)
    assert np.abs(model.sequence(x, dt) - ours).max() < 1e-4
    image = model.sequence(mirrored(torch.from_numpy(x)).numpy(), dt)
    assert np.abs(image - ours * np.array(MIRRORED)).max() < 1e-4
    order = np.r_[1:20, 0, 20:40]
    differs = np.abs(model.sequence(x[order], dt)[20:] - ours[20:]).max() > 1e-3
    assert differs == bool(units)  # only recurrent networks depend on earlier frames


def remembering_network(units):
    network = random_network(16, 3)
    network.remembering(units)
    with torch.no_grad():
        for p in network.recurrent.parameters():
            p.add_(0.3 * torch.randn_like(p))
    network.round_to_half()
    return network


def test_what_is_remembered_changes_at_ticks_alone():
    for rate, frames_between in ((72, 2), (90, 3), (120, 4)):
        at, number = tick_of_frame(np.r_[0, np.full(59, 1 / rate)])
        assert at == list(range(0, 60, frames_between))
        assert number.tolist() == [i // frames_between for i in range(60)]


def test_sessions_side_by_side_hold_all_motion_and_begin_with_nothing():
    motions = everyone(9)
    streams = streams_of(motions, SMALL, 0)
    assert streams.inputs.shape[1:] == (streams.dt.shape[1], 2, 146)
    assert streams.dt.numel() > 0.95 * sum(len(m) for m in motions) / 2
    assert 1 < (streams.goes_on == 0).sum() <= len(motions)


def test_what_is_remembered_is_learnt_from():
    """Only the first frame contains the facing, so only the recurrent member can predict it later."""
    network = random_network(32, 1)
    network.remembering(8)
    members = network.recurrent
    optimizer = torch.optim.Adam(members.parameters(), lr=5e-3)
    for _ in range(150):
        told = torch.randint(0, 2, (16,)) * 2.0 - 1
        x = torch.zeros(10, 16, 146)
        x[0, :, 0] = told
        memory = members.nothing(16)
        for t in range(10):
            memory = members.tick(members.heard(x[t]), memory)
        error = (members.read(x[-1], memory)[0, :, 0] - told).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    assert error < 0.1


def test_the_paper_s_torch_and_onnx_answer_alike(tmp_path):
    metadata = {"kind": "facing", "version": "1", "layout_hash": "x"}
    theirs = paper.PaperNetwork()
    (tmp_path / "p.onnx").write_bytes(onnx_of_paper(theirs, metadata | {"kind": "facing_paper"}))
    x = torch.randn(20, 42)
    with torch.no_grad():
        assert np.abs(OnnxModel(tmp_path / "p.onnx").step(x.numpy(), None, True)[0] - theirs(x).numpy()).max() < 1e-5


def test_the_loss_knows_that_angles_wrap():
    def at(angle):
        out = torch.tensor([[np.sin(angle), np.cos(angle), -2.0, 0.0]] * 2, dtype=torch.float32)
        return float(loss(out[None], torch.full((1, 2), np.pi - 0.01), torch.zeros(1), 0.0, 0.01))

    assert at(-np.pi + 0.01) == pytest.approx(at(np.pi - 0.03), abs=1e-3)
    assert at(np.pi - 0.01) < at(np.pi - 0.1) < at(0.0)


def track_of(motion):
    from orientation_toys import frames

    sequence = frames(motion)
    names = ("positions", "rotations", "velocities", "angular_velocities", "state")
    stamps = np.array([f.stamp_ns for f in sequence])
    return sequence, sim.TrackerTrack(stamps, *(np.array([getattr(f, n) for f in sequence]) for n in names))


def test_measured_predictions_are_the_stage_s():
    """Validation on whole clips gives the same facing as the stage frame by frame."""
    network = OnnxModel(MODELS / "facing.onnx")
    sequence, track = track_of(walker(4, seed=7))
    for predictor in ("network", "hmd_forward"):
        stage = OrientationStage(OrientationSettings(predictor=predictor), Calibration(), network)
        live = [stage.step(f).yaw for f in sequence]
        assert degrees_apart(predictions(track, 1.68, network.sequence, {})[predictor], live).max() < 0.01


def test_the_paper_s_network_runs_freely_as_the_stage_does(tmp_path):
    theirs = paper.train_paper(everyone(4), 5, 20, 0)
    metadata = {"kind": "facing_paper", "version": "1", "layout_hash": paper_hash()}
    (tmp_path / "p.onnx").write_bytes(onnx_of_paper(theirs, metadata))
    sequence, track = track_of(walker(4, seed=7))
    stage = OrientationStage(OrientationSettings(predictor="paper"), Calibration(), OnnxModel(tmp_path / "p.onnx"))
    live = [stage.step(f).yaw for f in sequence]
    found = predictions(track, 1.68, OnnxModel(MODELS / "facing.onnx").sequence, {"paper": theirs})["paper"]
    assert degrees_apart(found, live).max() < 0.1


def paper_hash():
    from mm_ros.facing.inputs import paper_layout_hash

    return paper_layout_hash()


def test_unrolling_is_what_running_freely_does():
    """Algorithm 1's inner loop, and the free run from the same start, end at the same facing."""
    motion, r = walker(2, seed=3), 7
    theirs = paper.train_paper([motion], 2, 5, 0)
    rows, headings, _, _ = paper.tables([motion])
    x, turns = torch.from_numpy(rows), torch.from_numpy(np.diff(headings, prepend=headings[:1]).astype(np.float32))
    c, s = torch.tensor([1.0]), torch.tensor([0.0])
    with torch.no_grad():
        for j in range(r):
            _, c, s = paper._unrolled(theirs, x[j : j + 1], turns[j : j + 1], c, s)
    v = augment.variant(motion, augment.NONE, np.random.default_rng(0))
    track = sim.TrackerTrack(
        np.arange(len(rows)), v.positions, v.rotations, v.velocities, v.angular_velocities, v.state
    )
    free = paper.run_freely(theirs, track, headings)
    assert degrees_apart(headings[r - 1] + np.arctan2(float(s), float(c)), free[r - 1]) < 0.05


def test_kinds_name_what_the_body_does():
    t = np.arange(0, 4, 1 / 60)
    positions = np.zeros((len(t), 23, 3))
    positions[:, 1, 2] = 0.95
    for speed, yaw, kind in ((1.2, 0.0, "forward"), (1.2, np.pi, "backward"), (1.2, np.pi / 2, "sideways"),
                             (3.0, 0.0, "run"), (0.0, 0.0, "stand")):  # fmt: skip
        positions[:, 1, 0] = speed * t
        times = np.arange(0, 3.9, 1 / 90)
        found = kinds_of(positions, np.full(len(times), yaw), times, t)[60:-60]
        assert {KINDS[k] for k in found} == {kind}


def test_errors_are_degrees_and_wrap():
    truth = Truth(np.array([3.1, 3.1, 3.1]), np.array([3.1, 3.1, 3.1]), np.zeros(3, int))
    e = Errors.empty()
    e.add(np.array([-3.1, 3.1, 3.1]), truth)
    assert e.summary()["mean"] == pytest.approx(np.degrees(2 * np.pi - 6.2) / 3)


def test_folds_share_no_subject_and_leave_nobody_out():
    from types import SimpleNamespace

    clips = [SimpleNamespace(subject=s, seconds=t) for s, t in (("a", 9), ("b", 5), ("c", 4), ("d", 1), ("b", 1))]
    groups = folds_of(clips, 3)
    assert sorted(s for g in groups for s in g) == ["a", "b", "c", "d"]
    assert folds_of(clips[:1], 3) == [{"a"}]


@pytest.fixture(scope="module")
def few(cmu_locomotion, tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    for name in ("16_34", "69_25", "09_12"):
        (folder / f"{name}.bvh").symlink_to(next(cmu_locomotion.rglob(f"{name}.bvh")))
    return folder


def test_the_command_trains_prints_and_writes(few, tmp_path, capsys):
    out = tmp_path / "facing.onnx"
    words = ["train", "orientation", "--data", str(few), "-o", str(out), "--credit", "somebody", "--variants", "1"]
    words += ["--epochs", "1", "--folds", "2", "--width", "16", "--members", "1", "--memory", "4"]
    words += ["--json", str(tmp_path / "f.json")]
    assert main([*words, "--no-paper"]) == 0
    printed = capsys.readouterr().out
    for word in ("as captured", "without head bias", "stress", "look-around", "headset only", "hmd_forward"):
        assert word in printed
    model = OnnxModel(out, "facing")
    assert model.metadata["credit"] == "somebody"
    assert model.figures()["as captured"]["network"]["as is"]["mean"] > 0
    OrientationStage(OrientationSettings(model=str(out)), Calibration(), model)

    assert main([*words, "--no-paper"]) == 2
    assert "exists" in capsys.readouterr().err

    alone = tmp_path / "alone.onnx"
    words[words.index(str(out))], words[words.index("--folds") + 1] = str(alone), "0"
    assert main([*words, "--no-paper"]) == 0
    assert OnnxModel(alone).metadata["weights_hash"] == model.metadata["weights_hash"]  # validation changes nothing


def test_the_command_s_own_settings_are_the_trainer_s():
    parser = argparse.ArgumentParser()
    train_orientation.add_arguments(parser)
    args, options = parser.parse_args(["--data", "x", "-o", "y"]), TrainOptions()
    for name in ("seed", "folds", "variants", "epochs"):
        assert getattr(args, name) == getattr(options, name)
    assert (args.width, args.members, args.memory) == (options.plan.width, options.plan.members, options.plan.memory)


def test_tuning_without_ray_says_what_to_install(few, tmp_path, capsys, monkeypatch):
    from mm_ros.facing.training import tune

    monkeypatch.setattr(tune, "find_spec", lambda name: None)
    assert main(["train", "orientation", "--data", str(few), "-o", str(tmp_path / "x.onnx"), "--tune", "2"]) == 2
    assert "mm_ros setup tune" in capsys.readouterr().err
