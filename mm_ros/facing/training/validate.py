"""Measures the errors of predictors of the facing on whole clips of subjects that are not in the training data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_UPPER_LEG, RIGHT_UPPER_LEG
from mm_ros.body.types import F32, F64, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE
from mm_ros.facing.inputs import INPUTS, inputs_sequence
from mm_ros.facing.orientation import OrientationSettings, believed_sequence, follow_sequence
from mm_ros.facing.training.paper import PaperNetwork, run_freely
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics import facing_of_body
from mm_ros.tracking import simulation as sim
from mm_ros.tracking.calibration import standing_headset_height
from mm_ros.tracking.simulation import RATE, Simulation, TrackerTrack

Network = Callable[[F32, F64], F32]  # function from inputs (F, INPUTS) and dt (F,) [s] of F frames to outputs (F, 4)

LOOK = Simulation(look_around_rad=float(np.radians(60)))
# Simulated trackers that are worse than usual: controllers are held differently, poses are noisy, controllers are lost.
STRESS = replace(
    LOOK, grip_sd_rad=float(np.radians(28)), grip_sd_m=0.02, noise_m=0.002, noise_rad=float(np.radians(0.5)),
    dropouts_per_minute=6.0,
)  # fmt: skip
CONDITIONS: dict[str, Simulation] = {"as is": Simulation(), "look-around": LOOK, "stress": STRESS}
HANDS: dict[str, tuple[int, ...]] = {
    "one controller": (LEFT_HAND_ROLE,), "headset only": (LEFT_HAND_ROLE, RIGHT_HAND_ROLE)
}  # fmt: skip
KINDS = ("stand", "turn on the spot", "forward", "backward", "sideways", "run", "low")


@dataclass
class Errors:
    """Errors of the predicted facing in each frame [deg], as one array per clip."""

    yaw: list[F64]
    root: list[F64]  # errors [deg] of the predicted facing relative to the direction of the hips alone
    rate: list[F64]  # errors of the predicted facing's rate of change [deg/s]
    kinds: list[Any]  # kind of motion in each frame, as an index into KINDS

    @classmethod
    def empty(cls) -> Errors:
        return cls([], [], [], [])

    def add(self, yaw: F64, truth: Truth) -> None:
        self.yaw.append(np.degrees(np.abs(rot.wrap_angle(yaw - truth.yaw))))
        self.root.append(np.degrees(np.abs(rot.wrap_angle(yaw - truth.root))))
        turned = rot.wrap_angle(np.diff(yaw)) - rot.wrap_angle(np.diff(truth.yaw))
        self.rate.append(np.degrees(np.abs(turned)) * RATE)
        self.kinds.append(truth.kinds)

    def extend(self, other: Errors) -> None:
        for own, its in zip(vars(self).values(), vars(other).values(), strict=True):
            own.extend(its)

    def summary(self) -> dict[str, Any]:
        e, kinds = np.concatenate(self.yaw), np.concatenate(self.kinds)
        return {
            "mean": float(e.mean()),
            "median": float(np.median(e)),
            "p95": float(np.percentile(e, 95)),
            "root_mean": float(np.concatenate(self.root).mean()),
            "rate_mean": float(np.concatenate(self.rate).mean()),
            "kinds": {k: float(e[kinds == i].mean()) for i, k in enumerate(KINDS) if (kinds == i).any()},
        }


@dataclass(frozen=True)
class Truth:
    yaw: F64  # (F,) true direction of hips and shoulders [rad]
    root: F64  # (F,) true direction of the hips alone [rad]
    kinds: Any  # (F,) kind of motion, as an index into KINDS


def subject_axes(clips: Sequence[Clip]) -> dict[str, F64]:
    """Return each subject's head axes in the axes of the head joint, without constant errors of yaw and pitch."""
    groups: dict[str, list[Clip]] = defaultdict(list)
    for clip in clips:
        groups[clip.subject].append(clip)
    out = {}
    for subject, own in groups.items():
        rotations, facings = [], []
        for clip in own:
            p, q = clip.globals()
            yaw = facing_of_body(p)
            rotations.append(q[:, HEAD].astype(np.float64))
            facings.append(np.stack([np.cos(yaw), np.sin(yaw), 0 * yaw], axis=-1))
        out[subject] = sim.head_axes(np.concatenate(rotations), np.concatenate(facings), remove_yaw_bias=True)
    return out


def measure(
    clips: Sequence[Clip], network: Network, papers: dict[str, PaperNetwork], seed: int = 0,
    settings: OrientationSettings | None = None, remove_bias: bool = False,
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, Errors]]:  # fmt: skip
    """Return facing errors by predictor and tracking condition; the paper's networks are run only with both hands."""
    errors: dict[str, dict[str, Errors]] = defaultdict(lambda: defaultdict(Errors.empty))
    axes = subject_axes(clips) if remove_bias else {}
    for k, clip in enumerate(clips):
        if clip.seconds < 1:
            continue
        p, q = clip.globals()
        height = standing_headset_height(clip.skeleton)
        for name, options in CONDITIONS.items():
            drawn = replace(options, seed=seed * 100_003 + k)
            track = sim.simulate(p, q, clip.rate, drawn, head_axes_local=axes.get(clip.subject))
            truth = truth_of(p, clip.rate, len(track))
            for predictor, yaw in predictions(track, height, network, papers, settings).items():
                errors[predictor][name].add(yaw, truth)
            for hands, roles in HANDS.items() if name == "as is" else ():
                for predictor, yaw in predictions(_without(track, roles), height, network, {}, settings).items():
                    errors[predictor][hands].add(yaw, truth)
        if tell:
            tell(k + 1, len(clips))
    return {p: dict(rows) for p, rows in errors.items()}


def predictions(
    track: TrackerTrack, height: float, network: Network, papers: dict[str, PaperNetwork],
    settings: OrientationSettings | None = None,
) -> dict[str, F64]:  # fmt: skip
    """Return the facings (F,) [rad] that `OrientationStage` would predict with each predictor."""
    settings = settings or OrientationSettings(predictor="network")
    inputs, headings = inputs_of(track, height)
    dt = np.diff(track.stamps_ns, prepend=track.stamps_ns[:1]) * 1e-9
    out = network(inputs, dt).astype(np.float64)
    relative = np.arctan2(out[:, 0], out[:, 1])
    targets = headings + believed_sequence(
        relative, track.state, dt, settings.one_hand_limit, settings.no_hand_limit
    )
    yaw = follow_sequence(
        targets, out[:, 3], dt, settings.halflife, settings.max_rate, settings.max_step
    )
    found = {"network": yaw, "hmd_forward": headings}
    for name, paper in papers.items():
        found[name] = run_freely(paper, track, headings)
    return found


def inputs_of(track: TrackerTrack, height: float) -> tuple[F32, F64]:
    n = len(track)
    inputs, headings = np.empty((n, INPUTS), np.float32), np.empty(n)
    dt = np.diff(track.stamps_ns, prepend=track.stamps_ns[:1]) * 1e-9
    inputs_sequence(
        track.positions, track.rotations, track.velocities, track.angular_velocities, track.state,
        height, dt, inputs, headings,
    )  # fmt: skip
    return inputs, headings


def truth_of(positions: Any, rate: float, frames: int) -> Truth:
    """Return the true facing and the kind of motion in each frame of the trackers."""
    times, own = np.arange(frames) / RATE, np.arange(len(positions)) / rate
    facing = sim.facing(positions[:, LEFT_UPPER_LEG], positions[:, RIGHT_UPPER_LEG])
    yaw = np.interp(times, own, np.unwrap(facing_of_body(positions)))
    root = np.interp(times, own, np.unwrap(np.arctan2(facing[:, 1], facing[:, 0])))
    return Truth(yaw, root, kinds_of(positions, yaw, times, own))


def kinds_of(positions: Any, yaw: F64, times: F64, own: F64) -> Any:
    """Return the kind of motion (F,) in the half second around each frame, as an index into `KINDS`."""
    half = int(0.25 * RATE)

    def change(a: F64) -> F64:
        padded = np.concatenate([np.repeat(a[:1], half, 0), a, np.repeat(a[-1:], half, 0)])
        return np.asarray((padded[2 * half :] - padded[: -2 * half]) * RATE / (2 * half))

    hips = np.stack([np.interp(times, own, positions[:, HIPS, i]) for i in range(3)], axis=-1)
    v, turn = change(hips[:, :2]), np.abs(change(yaw))
    speed = np.linalg.norm(v, axis=-1)
    ahead = (v[:, 0] * np.cos(yaw) + v[:, 1] * np.sin(yaw)) / np.maximum(speed, 1e-9)
    kinds = np.select(
        [speed > 2.2, (speed < 0.25) & (turn > np.radians(45)), speed < 0.25, ahead > 0.7, ahead < -0.7],
        [5, 1, 0, 2, 3],
        4,
    )
    low = hips[:, 2] < 0.75 * np.percentile(positions[:, HIPS, 2], 90)
    return np.where(low, 6, kinds)


def _without(track: TrackerTrack, roles: Sequence[int]) -> TrackerTrack:
    state = track.state.copy()
    state[:, list(roles)] = LOST
    return replace(track, state=state)


def merged(parts: Sequence[dict[str, dict[str, Errors]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Merge the errors of the parts of a cross-validation to summaries over all frames, by predictor and condition."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for predictor, rows in parts[0].items():
        out[predictor] = {}
        for condition in rows:
            whole = Errors.empty()
            for part in parts:
                whole.extend(part[predictor][condition])
            out[predictor][condition] = whole.summary()
    return out
