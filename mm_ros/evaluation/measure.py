"""Metrics of one clip in one row, kept as raw values so that clips and kinds can be pooled later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import HEAD, LEFT_HAND, PARENTS, RIGHT_HAND, Skeleton
from mm_ros.body.types import F64, LOST, Calibration
from mm_ros.evaluation import look_ahead
from mm_ros.evaluation.replay_chain import ChainResult, PoseTrack
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import cubic, spherical
from mm_ros.motion import metrics as m

RATE = 60.0
DT = 1 / RATE

# Raw values per frame, stance or event; summarised as mean, median, p95 and p99.
VALUES = (
    "predicted_facing_error_deg", "predicted_facing_error_root_deg", "facing_error_deg", "facing_error_root_deg",
    "predicted_facing_error_pelvis_deg", "facing_error_pelvis_deg",
    "target_error_m", "root_error_m", "head_error_m", "head_error_deg", "hand_error_m", "lean_deg",
    "stance_drift_m", "stance_twist_deg", "locked_motion_m", "floor_penetration_m", "knee_beyond_straight_deg",
    "start_lag_s", "stop_lag_s", "step_ms",
    *look_ahead.ERRORS, *look_ahead.RAW_ERRORS, look_ahead.STANDING,
)  # fmt: skip
# One number per clip, pooled with its duration as weight.
NUMBERS = ("skate_ratio", "jitter", "jumps_per_s", "pops_per_min")
FRAME_VALUES = (
    "predicted_facing_error_deg", "predicted_facing_error_root_deg", "facing_error_deg", "facing_error_root_deg",
    "predicted_facing_error_pelvis_deg", "facing_error_pelvis_deg",
    "target_error_m", "root_error_m", "lean_deg", "floor_penetration_m",
)  # fmt: skip


@dataclass
class Measured:
    """`values`: metric → raw values; `numbers`: metric → one number for `seconds` of motion."""

    seconds: float
    values: dict[str, F64] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    by_frame: dict[str, F64] = field(default_factory=dict)  # at 60 Hz, for kinds and plots


@dataclass(frozen=True)
class Truth:
    """True body of the clip at 60 Hz, in the room."""

    positions: F64  # (F, J, 3)
    rotations: F64  # (F, J, 4)
    root_yaw: F64  # (F,) of the virtual root
    contacts: NDArray[np.bool_]  # (F, 2)

    @property
    def facing(self) -> F64:
        return m.facing_of_body(self.positions)


def room(track: PoseTrack) -> tuple[F64, F64]:
    p, q = rot.forward_kinematics(PARENTS, *track.local())
    return np.asarray(p), np.asarray(q)


def at_60(track: PoseTrack, times: F64, wanted: F64) -> tuple[F64, F64, NDArray[Any], NDArray[Any]]:
    """Joints in the room, contacts and locks at the times `wanted` [s], with the interpolation of `resample`."""
    positions, rotations = track.local()
    place = np.interp(wanted, times, np.arange(len(times), dtype=np.float64))
    p, q = rot.forward_kinematics(PARENTS, cubic(positions, place), spherical(rotations, place))
    nearest = np.clip(np.round(place).astype(int), 0, len(times) - 1)
    return np.asarray(p), np.asarray(q), track.contacts[nearest], track.locked[nearest]


def of_body(positions: F64, contacts: Any, seconds: float, pop_limit: float) -> Measured:
    """Metrics that need no truth: feet and smoothness."""
    out = Measured(seconds)
    out.values["stance_drift_m"] = m.stance_drift_m(positions, contacts, DT)
    out.values["stance_twist_deg"] = m.stance_twist_deg(positions, contacts, DT)
    out.by_frame["floor_penetration_m"] = m.floor_penetration_m(positions).reshape(len(positions), -1).max(1)
    out.numbers["skate_ratio"] = m.skate_ratio(positions, DT)
    out.numbers["jitter"] = m.jitter(positions, DT)
    if np.isfinite(pop_limit):
        out.numbers["pops_per_min"] = m.pops_per_min(positions, pop_limit, DT)
    return out


def of_chain(
    result: ChainResult,
    trackers: Any,
    calibration: Calibration,
    skeleton: Skeleton,
    truth: Truth | None,
    pop_limit: float,
) -> Measured:
    """All metrics of one run. `trackers`: the TrackerTrack rows that the chain used, in order."""
    times = (result.stamps_ns - result.stamps_ns[0]) * 1e-9
    frames = len(truth.positions) if truth is not None else int(times[-1] * RATE) + 1
    wanted = np.arange(frames) * DT
    wanted = wanted[wanted <= times[-1] + 1e-9]
    positions, rotations, contacts, locked = at_60(result.pose, times, wanted)
    out = of_body(positions, contacts, float(times[-1]), pop_limit)
    out.values["locked_motion_m"] = m.locked_motion_m(positions, locked)
    out.values["knee_beyond_straight_deg"] = m.knee_beyond_straight_deg(positions, rotations)
    out.by_frame["lean_deg"] = np.interp(wanted, times, result.added_lean_deg)
    out.by_frame["target_error_m"] = np.interp(wanted, times, result.target_error_m)
    out.numbers["jumps_per_s"] = m.jumps_per_s(result.pose.segment, float(np.median(np.diff(times))))
    out.values["step_ms"] = result.step_s * 1e3
    _against_trackers(out, result, trackers, calibration, skeleton)
    if truth is not None:
        _against_truth(out, result, positions, times, wanted, truth)
        hips = m.root_position(truth.positions)
        out.values.update(look_ahead.values(result, trackers, times, hips, DT))
    out.values.update({k: v for k, v in out.by_frame.items() if k in VALUES})
    return out


def _against_truth(out: Measured, r: ChainResult, positions: F64, times: F64, wanted: F64, truth: Truth) -> None:
    n = len(wanted)
    true, facing, root_yaw = truth.positions[:n], truth.facing[:n], truth.root_yaw[:n]
    predicted = np.interp(wanted, times, np.unwrap(r.facing_yaw))
    ours = m.facing_of_body(positions)
    out.by_frame["predicted_facing_error_deg"] = m.angle_error_deg(predicted, facing)
    out.by_frame["predicted_facing_error_root_deg"] = m.angle_error_deg(predicted, root_yaw)
    out.by_frame["facing_error_deg"] = m.angle_error_deg(ours, facing)
    pelvis = m.facing_of_pelvis(true)  # as in Fletcher 2023: hips only
    out.by_frame["predicted_facing_error_pelvis_deg"] = m.angle_error_deg(predicted, pelvis)
    out.by_frame["facing_error_pelvis_deg"] = m.angle_error_deg(m.facing_of_pelvis(positions), pelvis)
    root = np.interp(wanted, times, np.unwrap(rot.yaw_of(r.pose.root[:, 3:])))
    out.by_frame["facing_error_root_deg"] = m.angle_error_deg(root, root_yaw)
    out.by_frame["root_error_m"] = m.position_error_m(m.root_position(positions), m.root_position(true))
    for name, lag in (("start_lag_s", m.start_lag_s), ("stop_lag_s", m.stop_lag_s)):
        out.values[name] = lag(m.root_position(true), m.root_position(positions), DT)


def _against_trackers(out: Measured, r: ChainResult, trackers: Any, c: Calibration, skeleton: Skeleton) -> None:
    """Errors of the devices as attached to the published joints; NaN for lost devices."""
    p, q = room(r.pose)
    seen = trackers.state != LOST
    at, turned = _carried(p[:, HEAD], q[:, HEAD], c.headset_in_head)
    head = np.where(seen[:, 0], m.position_error_m(at, trackers.positions[:, 0]), np.nan)
    turn = np.where(seen[:, 0], m.rotation_error_deg(turned, trackers.rotations[:, 0]), np.nan)
    grips = (c.left_grip_in_hand, c.right_grip_in_hand)
    held = [(trackers.positions[:, i + 1], trackers.rotations[:, i + 1], grips[i]) for i in range(2)]
    wrists = np.stack([_wrist(*h) for h in held], 1)
    reach = m.hands_in_reach(p, wrists, skeleton) & seen[:, 1:3]
    hands = np.stack(
        [
            m.position_error_m(_carried(p[:, j], q[:, j], grips[i])[0], trackers.positions[:, i + 1])
            for i, j in enumerate((LEFT_HAND, RIGHT_HAND))
        ],
        1,
    )
    out.values["head_error_m"], out.values["head_error_deg"] = head, turn
    out.values["hand_error_m"] = np.where(reach, hands, np.nan).ravel()


def _carried(p: F64, q: F64, offset: F64) -> tuple[F64, F64]:
    return p + rot.rotate(q, offset[:3]), rot.multiply(q, np.broadcast_to(offset[3:], q.shape))


def _wrist(p: F64, q: F64, offset: F64) -> F64:
    joint = rot.multiply(q, np.broadcast_to(rot.inverse(offset[3:]), q.shape))
    return np.asarray(p - rot.rotate(joint, np.broadcast_to(offset[:3], p.shape)))


def of_truth(truth: Truth, pop_limit: float) -> Measured:
    """Metrics of the ground truth itself: feet and smoothness."""
    out = of_body(truth.positions, truth.contacts, len(truth.positions) * DT, pop_limit)
    out.values.update({k: v for k, v in out.by_frame.items() if k in VALUES})
    return out


def pooled(parts: list[Measured]) -> dict[str, Any]:
    """Summary of all clips: values are concatenated, numbers weighted by their seconds."""
    out: dict[str, Any] = {}
    for name in VALUES:
        have = [p.values[name] for p in parts if name in p.values]
        values = np.concatenate(have) if have else np.zeros(0)
        if np.isfinite(values).any():
            out[name] = m.summarise(values)
    for name in NUMBERS:
        have_numbers = [(p.numbers[name], p.seconds) for p in parts if name in p.numbers]
        if have_numbers:
            value, seconds = np.array(have_numbers).T
            out[name] = float(np.average(value, weights=np.maximum(seconds, 1e-9)))
    for share, error, raw in zip(look_ahead.SHARES, look_ahead.ERRORS, look_ahead.RAW_ERRORS, strict=True):
        if error in out:
            out[share] = out[error]["mean"] / max(out[raw]["mean"], 1e-9)
    return out


def by_kind(parts: list[Measured], kinds: list[NDArray[np.int8]], names: tuple[str, ...]) -> dict[str, Any]:
    """Frame-wise metrics for each kind of motion."""
    out: dict[str, Any] = {}
    for k, name in enumerate(names):
        row: dict[str, Any] = {}
        for metric in FRAME_VALUES:
            pairs = [(p.by_frame[metric], kind) for p, kind in zip(parts, kinds, strict=True) if metric in p.by_frame]
            have = [values[kind[: len(values)] == k] for values, kind in pairs]
            values = np.concatenate(have) if have else np.zeros(0)
            if len(values):
                row[metric] = m.summarise(values)
        if row:
            row["seconds"] = float(sum((kind == k).sum() for kind in kinds) * DT)
            out[name] = row
    return out
