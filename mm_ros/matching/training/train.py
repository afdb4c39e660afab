"""Train the four networks of the learned engine from a database in three stages.

An interrupted training continues from its last checkpoint.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros import __version__
from mm_ros.base.errors import MmRosError
from mm_ros.base.files import write_whole
from mm_ros.matching.training import pose
from mm_ros.matching.training.data import MotionData, QuerySampler, motion_data
from mm_ros.matching.training.motion import Projector, ProjectorTask, Stepper, StepperTask
from mm_ros.matching.training.networks import Sizes
from mm_ros.matching.training.onnx_file import metadata_of, onnx_of
from mm_ros.matching.training.pose import PoseNetworks, PoseTask, all_latents
from mm_ros.motion.database import MotionDatabase

STAGES = ("pose", "stepper", "projector")
SAVE_EVERY_S = 60.0  # Time between two checkpoints, from which an interrupted training continues.
TELL_EVERY_S = 15.0  # Time [s] between two lines of progress output of the training.
WARM_STEPS = 100


@dataclass(frozen=True)
class Options:
    seed: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    pose_steps: int = 4000
    stepper_steps: int = 12000
    projector_steps: int = 20000
    pose_batch: int = 512
    stepper_batch: int = 64
    projector_batch: int = 256
    learning_rate: float = 1e-3
    last_rate: float = 1e-5
    pool: int = 100_000  # number of queries that are drawn at once for the projector network
    visits: int = 12  # number of training steps that use each query, because the exact search takes long
    threads: int = 1

    def steps(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_steps"))


class Task(Protocol):
    def loss(self, step: int) -> Tensor: ...


@dataclass
class Trained:
    database: MotionDatabase
    options: Options
    networks: nn.ModuleDict  # pose, stepper, projector
    states: Any  # (N, D + L)
    conditions: int
    seconds: dict[str, float]

    def onnx(self, credit: str = "", figures: dict[str, Any] | None = None) -> bytes:
        class Networks:
            decompressor = self.networks["pose"].decompressor
            stepper = self.networks["stepper"]
            projector = self.networks["projector"]

        used = (Networks.decompressor, Networks.stepper, Networks.projector)
        features = self.database.layout.size
        metadata = metadata_of(
            self.database, self.database.layout.column_weights(),
            sum(p.numel() for n in used for p in n.parameters()),
            mm_ros=__version__, date=date.today().isoformat(), training=json.dumps(asdict(self.options)),
            seconds=json.dumps({k: round(v) for k, v in self.seconds.items()}), figures=json.dumps(figures or {}),
            data=json.dumps({
                "frames": len(self.database), "clips": len(self.database.clip_names),
                "minutes": round(len(self.database) / self.database.rate / 60, 1),
            }),
        )  # fmt: skip
        if credit:
            metadata["licence"] = credit
        return onnx_of(Networks, self.states, features, self.conditions, metadata)


class Training:
    """Training of the learned engine's networks in three stages.

    Random numbers depend only on seed, stage and step, so that an interrupted training gives the same result as one
    without an interruption.
    """

    def __init__(self, database: MotionDatabase, options: Options, checkpoint: Path | None, say: Callable[[str], None]):
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        self.options, self.checkpoint, self.say = options, checkpoint, say
        self.data: MotionData = motion_data(database)
        self.weights = database.layout.column_weights()
        self.conditions = 3 * len(database.tag_names)
        features, width = database.layout.size, database.layout.size + options.sizes.latent
        self.networks = nn.ModuleDict({
            "pose": PoseNetworks(features, database.skeleton, options.sizes),
            "stepper": Stepper(width, options.sizes),
            "projector": Projector(features, self.conditions, options.sizes),
        })  # fmt: skip
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.states: Any = None
        self.key = _key(database, options)

    def run(self) -> Trained:
        # Torch replaces denormal (extremely small) numbers by zero in the whole thread until the training ends, because
        # arithmetic with denormal numbers is slow.
        torch.set_flush_denormal(True)
        try:
            return self._run()
        finally:
            torch.set_flush_denormal(False)

    def _run(self) -> Trained:
        at, step, optimizer_state = self._resume()
        for stage in STAGES[at:]:
            task = self._task(stage, fresh=optimizer_state is None and step == 0)
            self._fit(stage, task, step, optimizer_state)
            step, optimizer_state = 0, None
        return Trained(self.data.database, self.options, self.networks, self.states, self.conditions, self.seconds)

    def _task(self, stage: str, fresh: bool) -> Task:
        o, data = self.options, self.data
        if stage == "pose":
            if fresh:
                self.networks["pose"].begin(data, data.database.skeleton)
            return PoseTask(data, self.networks["pose"], o.pose_batch, o.seed)
        if self.states is None:
            latents = all_latents(data, self.networks["pose"])
            self.states = np.concatenate([data.features, latents], 1).astype(np.float32)
        if stage == "stepper":
            if fresh:
                self.networks["stepper"].begin(self.states, data.starts_of_windows(2))
            return StepperTask(data, self.states, self.networks["stepper"], o.stepper_batch, o.seed)
        asking = QuerySampler(data, self.weights, o.seed)
        # A short training needs fewer than `o.pool` queries.
        pool = min(o.pool, -(-o.projector_steps * o.projector_batch // o.visits))
        task = ProjectorTask(asking, self.states, self.networks["projector"], o.projector_batch, o.seed, pool, o.visits)
        if fresh:
            self.networks["projector"].begin(task.questions(0), self.states)
        return task

    def _fit(self, stage: str, task: Task, first: int, optimizer_state: Any) -> None:
        total = self.options.steps(stage)
        optimizer = torch.optim.Adam(self.networks[stage].parameters(), lr=self.options.learning_rate, fused=True)
        if optimizer_state is not None:
            optimizer.load_state_dict(optimizer_state)
        began = saved = reported = time.monotonic()
        before, losses = self.seconds[stage], []
        for step in range(first, total):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, total, self.options)
            loss = task.loss(step)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.networks[stage].parameters(), 10.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            now = time.monotonic()
            self.seconds[stage] = before + now - began
            if now - reported > TELL_EVERY_S or step + 1 == total:
                left = (now - began) / (step + 1 - first) * (total - step - 1)
                what = f"{stage} {step + 1}/{total}: loss {np.mean(losses):.3f}, {self.meaning(stage)}"
                self.say(f"{what}; {left / 60:.1f} min left of this stage")
                reported, losses = now, []
            if now - saved > SAVE_EVERY_S:
                self._save(stage, step + 1, optimizer)
                saved = now
        if stage == "pose":
            self.states = None
        self._save(stage, total, optimizer)

    def meaning(self, stage: str) -> str:
        """Return the error of the poses after a training stage as text, in centimetres and degrees."""
        rng = np.random.default_rng(5)
        net = self.networks["pose"]
        with torch.no_grad():
            if stage == "pose":
                rows = rng.integers(len(self.data.codes), size=1500)
                y, r, x = (torch.from_numpy(a[rows]) for a in (self.data.codes, self.data.rates, self.data.features))
                out = net.decompressor(torch.cat([x, net.latents(y, r, x)], -1))
                name = "rebuilt"
            elif stage == "stepper":
                starts = self.data.starts_of_windows(20)
                rows = starts[rng.integers(len(starts), size=1000)]
                state = torch.from_numpy(self.states[rows])
                for _ in range(19):
                    state = self.networks["stepper"](state)
                rows, out, name = rows + 19, net.decompressor(state), "after 19 steps"
            else:
                asked = rng.integers(self.options.pool, size=1000)
                questions = self._last_questions
                asked = asked % len(questions.answers)
                rows = questions.answers[asked]
                out = net.decompressor(self.networks["projector"](torch.from_numpy(questions.inputs[asked])))
                name = "from the exact answer's pose"
        m = pose.measured(self.data, net.body, rows, out.numpy())
        return f"{name} {m['joints_cm_mean']:.2f} cm (p95 {m['joints_cm_p95']:.1f}), {m['rotations_deg_mean']:.1f}°"

    @property
    def _last_questions(self) -> Any:
        if not hasattr(self, "_held"):
            self._held = QuerySampler(self.data, self.weights, self.options.seed + 1).pool(10**6, 2000)
        return self._held

    def _save(self, stage: str, step: int, optimizer: torch.optim.Optimizer) -> None:
        if self.checkpoint is None:
            return
        out = io.BytesIO()
        torch.save(
            {"key": self.key, "stage": stage, "step": step, "networks": self.networks.state_dict(),
             "optimizer": optimizer.state_dict(), "seconds": self.seconds}, out,
        )  # fmt: skip
        write_whole(self.checkpoint, iter([out.getvalue()]), mode=0o644)

    def _resume(self) -> tuple[int, int, Any]:
        if self.checkpoint is None or not self.checkpoint.is_file():
            return 0, 0, None
        try:
            stored = torch.load(self.checkpoint, weights_only=True)
            key = stored["key"]
        except Exception as error:  # For a damaged checkpoint, torch can raise an exception of any class.
            raise MmRosError(f"{self.checkpoint} cannot be read ({error}). Remove it to begin again") from error
        if key != self.key:
            raise MmRosError(
                f"{self.checkpoint} belongs to another training (other motion or options). "
                "Remove it, or begin again with --fresh"
            )
        self.networks.load_state_dict(stored["networks"])
        self.seconds = stored["seconds"]
        at, step = STAGES.index(stored["stage"]), int(stored["step"])
        self.say(f"resuming at {stored['stage']} {step}/{self.options.steps(stored['stage'])}")
        if step >= self.options.steps(stored["stage"]):
            if at + 1 == len(STAGES):
                self._task("stepper", fresh=False)
            return at + 1, 0, None
        return at, step, stored["optimizer"]


def expected_s(database: MotionDatabase, options: Options, tried: int = 40) -> float:
    """Estimate the duration of a training on this machine [s] from `tried` steps of each stage."""
    few = replace(options, pose_steps=tried, stepper_steps=tried, projector_steps=tried)
    seconds = Training(database, few, None, lambda line: None).run().seconds
    return sum(seconds[stage] / tried * options.steps(stage) for stage in STAGES)


def learning_rate(step: int, total: int, options: Options) -> float:
    warm = min(1.0, (step + 1) / WARM_STEPS)
    share = 0.5 * (1 + math.cos(math.pi * step / max(total, 1)))
    return warm * (options.last_rate + (options.learning_rate - options.last_rate) * share)


def _key(database: MotionDatabase, options: Options) -> str:
    digest = hashlib.blake2b(digest_size=8)
    digest.update(repr([asdict(options), database.layout.hash, database.skeleton.hash, len(database)]).encode())
    digest.update(np.ascontiguousarray(database.features[:: max(1, len(database) // 1000)]).tobytes())
    return digest.hexdigest()


def finish(trained: Trained, path: Path, credit: str = "") -> dict[str, Any]:
    """Write the model file, measure its accuracy, and write the file again with the measured figures. Return the
    figures."""
    from mm_ros.matching.model_file import LearnedModel
    from mm_ros.matching.training.validate import validate

    write_whole(path, trained.onnx(credit))
    figures = validate(trained, LearnedModel(path))
    write_whole(path, trained.onnx(credit, figures))
    return figures
