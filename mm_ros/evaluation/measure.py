"""Computes the metrics of the avatar in one clip; the function `pooled` summarizes the metrics of many clips."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_FOOT, LEFT_HAND, RIGHT_FOOT, RIGHT_HAND, canonical_kinematics
from mm_ros.body.types import F64, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, TRACKED
from mm_ros.evaluation import footfalls, look_ahead
from mm_ros.evaluation.footfalls import Feet
from mm_ros.evaluation.reference import CARRIERS, FITTED_S, Known, Offset, fit_offset
from mm_ros.evaluation.replay_chain import ChainResult, PoseTrack
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import cubic, spherical
from mm_ros.motion import metrics as m
from mm_ros.pose.upper_body import WRIST_BEND_LIMIT, WRIST_SIDE_LIMIT

RATE = 60.0
DT = 1 / RATE

# A metric in VALUES has many values per clip (per frame, stance or event); the table shows mean, median, p95 and p99.
VALUES = (
    "predicted_facing_error_deg", "predicted_facing_error_root_deg", "facing_error_deg", "facing_error_root_deg",
    "predicted_facing_error_pelvis_deg", "facing_error_pelvis_deg",
    "target_error_m", "root_error_m", "head_error_m", "head_error_deg", "hand_error_m", "hand_error_all_m",
    "wrist_bend_deg", "lean_deg", "ankle_error_cm", "hips_error_cm", "hips_height_error_cm", "chest_error_cm",
    "knee_error_cm", "elbow_error_cm",
    "stance_drift_m", "stance_twist_deg", "locked_motion_m", "floor_penetration_m", "knee_beyond_straight_deg",
    "start_lag_s", "stop_lag_s", "step_ms",
    *look_ahead.ERRORS, *look_ahead.RAW_ERRORS, look_ahead.STANDING,
)  # fmt: skip
# A metric in NUMBERS has one number per clip; the table shows the mean over clips, weighted by duration.
NUMBERS = ("skate_ratio", "jitter", "jumps_per_s", "pops_per_min")
# Metrics that are a ratio of two counts: name of the metric, count in the numerator, count in the denominator.
COUNTED = {
    "wrist_limit_share": ("wrist_limit", "wrists"),
    "reach_share": ("in_reach", "wrists"),
    "solver_reach_share": ("in_solver_reach", "wrists"),
}
# For the metrics and statistics in WITH_INTERVAL, the table also shows a confidence interval, by bootstrap over the
# recordings.
WITH_INTERVAL: tuple[tuple[str, str | None], ...] = (
    ("ankle_error_cm", "median"), ("ankle_error_cm", "mean"), ("ankle_error_cm", "p95"), ("facing_error_deg", "mean"),
    ("predicted_facing_error_deg", "mean"), ("footfall_f1", None), ("same_foot", None), ("contact_agreement", None),
    ("steps_per_minute", None), ("phantom_steps_per_minute", None), ("skate_ratio", None),
)  # fmt: skip
DRAWS, FEWEST = 400, 5  # number of bootstrap samples, and minimum number of recordings for a confidence interval
# For each metric, the reference data from which it is computed; without these data, the metric is null in the JSON
# file.
NEEDS = {
    **dict.fromkeys(("wrist_bend_deg", "wrist_limit_share", "reach_share", "solver_reach_share", "hand_error_all_m"),
                    "tracked controllers"),
    "head_error_m": "a tracked headset",
    "ankle_error_cm": "trackers on both feet, or motion capture",
    **dict.fromkeys(("hips_error_cm", "predicted_facing_error_deg", "facing_error_deg", "ahead_1000ms_share"),
                    "a waist tracker, or motion capture"),
    "contact_agreement": "trackers on the feet that stand and move, or motion capture",
    **dict.fromkeys(("steps_per_minute", "true_steps_per_minute", "phantom_steps_per_minute"),
                    "trackers on both feet, marked footfalls, or motion capture"),
    **dict.fromkeys(("footfall_f1", "footfall_delay_s", "same_foot", "same_foot_matches"),
                    "footfalls of the user (trackers on both feet, marks, or motion capture) that some of ours match"),
    "stance_drift_m": "feet of the avatar that stand",
}  # fmt: skip
UPRIGHT_DEG = 30.0
WRIST_AT_LIMIT = 0.99  # A wrist that is bent by more than 99 % of its limit counts as being at the limit.
FROZEN_S = 0.1  # A tracked device that repeats its pose for 0.1 s counts as frozen.
FRAME_VALUES = (
    "predicted_facing_error_deg", "predicted_facing_error_root_deg", "facing_error_deg", "facing_error_root_deg",
    "predicted_facing_error_pelvis_deg", "facing_error_pelvis_deg",
    "target_error_m", "root_error_m", "lean_deg", "floor_penetration_m",
)  # fmt: skip


@dataclass
class Measured:
    """Metrics of one clip: `values` maps the name of a metric to its raw values; `numbers` maps the name of a metric to
    one number for the whole clip."""

    seconds: float
    values: dict[str, F64] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    by_frame: dict[str, F64] = field(default_factory=dict)  # maps the name of a metric to its values at 60 Hz
    counts: dict[str, float] = field(default_factory=dict)  # numbers of samples and events in the clip, by name
    delays: F64 = field(default_factory=lambda: np.zeros(0))  # delays [s] of the avatar's touchdowns after the user's
    offsets: dict[str, Offset] = field(default_factory=dict)  # maps each body tracker to its offset from the joint
    feet: tuple[Feet, Feet] | None = None  # motion of the user's feet (first) and of the avatar's feet (second)


@dataclass(frozen=True)
class Truth:
    """True poses of the user's body at 60 Hz, in the axes of the tracking room."""

    positions: F64  # (F, J, 3)
    rotations: F64  # (F, J, 4)
    root_yaw: F64  # (F,) yaw of the root joint of the user's true body [rad]
    contacts: NDArray[np.bool_]  # (F, 2)

    @property
    def facing(self) -> F64:
        return m.facing_of_body(self.positions)


NOTHING_KNOWN = Known()


def room(track: PoseTrack) -> tuple[F64, F64]:
    p, q = canonical_kinematics(*track.local())
    return np.asarray(p), np.asarray(q)


def at_60(track: PoseTrack, times: F64, wanted: F64) -> tuple[F64, F64, NDArray[Any], NDArray[Any]]:
    """Return the avatar's joint positions and rotations in the room, foot contacts and foot locks at the times `wanted`
    [s]."""
    positions, rotations = track.local()
    place = np.interp(wanted, times, np.arange(len(times), dtype=np.float64))
    p, q = canonical_kinematics(cubic(positions, place), spherical(rotations, place))
    nearest = np.clip(np.round(place).astype(int), 0, len(times) - 1)
    return np.asarray(p), np.asarray(q), track.contacts[nearest], track.locked[nearest]


def of_body(positions: F64, contacts: Any, seconds: float, pop_limit: float) -> Measured:
    """Compute the metrics of the avatar's feet and smoothness, which need no true poses of the user."""
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
    result: ChainResult, trackers: Any, truth: Truth | None, pop_limit: float, known: Known = NOTHING_KNOWN
) -> Measured:
    """Compute all metrics of the avatar's poses `result`, one for each tracker sample in `trackers`."""
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
    _against_trackers(out, result, trackers, known.arm)
    if truth is not None:
        _against_truth(out, result, positions, times, wanted, truth)
        hips = m.root_position(truth.positions)
    else:
        hips = _against_devices(out, result, positions, rotations, times, wanted, known)
    if np.isfinite(hips).any():
        out.values.update(look_ahead.values(result, trackers, times, hips, DT))
    user = user_feet(truth, known, result.stamps_ns[0], len(wanted))
    _compare_feet(out, user, footfalls.feet_of(positions[:, [LEFT_FOOT, RIGHT_FOOT]], DT))
    out.values.update({k: v for k, v in out.by_frame.items() if k in VALUES})
    return out


def of_chance(ours: Measured) -> Measured | None:
    """Compute how well the avatar's feet agree by chance with the user's feet, that is, after the user's feet are
    shifted in time. If the motion of the user's feet is unknown, return None."""
    if ours.feet is None:
        return None
    return Measured(ours.seconds, counts=footfalls.chance(*ours.feet, ours.seconds, DT))


def of_estimate(result: ChainResult, truth: Truth | None, known: Known) -> Measured | None:
    """Compute the metrics of the estimated feet of the user, or return None if the feet were not estimated."""
    estimate = result.feet
    if estimate is None:
        return None
    times = (result.stamps_ns - result.stamps_ns[0]) * 1e-9
    frames = len(truth.positions) if truth is not None else int(times[-1] * RATE) + 1
    wanted = np.arange(frames) * DT
    wanted = wanted[wanted <= times[-1] + 1e-9]
    out = Measured(float(times[-1]))
    place = np.clip(np.round(np.interp(wanted, times, np.arange(len(times)))).astype(int), 0, len(times) - 1)
    ankles = estimate.ankles[place]
    errors = []
    for side, (role, joint) in enumerate((("left_foot", LEFT_FOOT), ("right_foot", RIGHT_FOOT))):
        if truth is not None:
            user = truth.positions[: len(wanted), joint]
        elif role in known.devices:
            p, q = known.devices[role].at(result.stamps_ns[0] + np.round(wanted * 1e9).astype(np.int64))
            level = np.tile([1.0, 0.0, 0.0, 0.0], (len(p), 1))
            offset = fit_offset(p, q, ankles[:, side], level, wanted)
            if offset is None:
                continue
            out.offsets[role], (user, _) = offset, offset.joint(p, q)
        else:
            continue
        errors.append(m.position_error_m(ankles[:, side], user) * 100)
    if errors:
        out.values["ankle_error_cm"] = np.concatenate(errors)
    landings = tuple(times[estimate.touchdown[:, side]] for side in range(2))
    mine = Feet((estimate.contact[place] > 0.5).astype(np.float64), (landings[0], landings[1]))
    _compare_feet(out, user_feet(truth, known, result.stamps_ns[0], len(wanted)), mine)
    return out


def user_feet(truth: Truth | None, known: Known, first_ns: int, frames: int) -> Feet:
    """Return the motion of the user's feet, from the true foot joints if they are recorded, else from the foot
    trackers. If the recording has marked footfalls, they replace the detected touchdowns."""
    if truth is not None:
        feet = footfalls.feet_of(truth.positions[:frames, [LEFT_FOOT, RIGHT_FOOT]], DT)
    else:
        stamps = first_ns + np.round(np.arange(frames) * DT * 1e9).astype(np.int64)
        unknown = np.full((frames, 3), np.nan)
        roles = ("left_foot", "right_foot")
        points = [known.devices[r].at(stamps)[0] if r in known.devices else unknown for r in roles]
        feet = footfalls.feet_of(np.stack(points, 1), DT)
    if known.landings is None:
        return feet
    late = (first_ns - known.start_ns) * 1e-9
    left, right = (t[(t >= late) & (t <= late + frames * DT)] - late for t in known.landings)
    return Feet(feet.still, (left, right))


def _compare_feet(out: Measured, user: Feet, own: Feet) -> None:
    counts, out.delays = footfalls.agreement(user, own, out.seconds)
    out.counts.update(counts)
    if counts:
        out.feet = user, own


def _against_truth(out: Measured, r: ChainResult, positions: F64, times: F64, wanted: F64, truth: Truth) -> None:
    n = len(wanted)
    true, facing, root_yaw = truth.positions[:n], truth.facing[:n], truth.root_yaw[:n]
    predicted = np.interp(wanted, times, np.unwrap(r.facing_yaw))
    ours = m.facing_of_body(positions)
    out.by_frame["predicted_facing_error_deg"] = m.angle_error_deg(predicted, facing)
    out.by_frame["predicted_facing_error_root_deg"] = m.angle_error_deg(predicted, root_yaw)
    out.by_frame["facing_error_deg"] = m.angle_error_deg(ours, facing)
    pelvis = m.facing_of_pelvis(true)  # facing of the hips alone, as measured in Fletcher 2023
    out.by_frame["predicted_facing_error_pelvis_deg"] = m.angle_error_deg(predicted, pelvis)
    out.by_frame["facing_error_pelvis_deg"] = m.angle_error_deg(m.facing_of_pelvis(positions), pelvis)
    root = np.interp(wanted, times, np.unwrap(rot.yaw_of(r.pose.root[:, 3:])))
    out.by_frame["facing_error_root_deg"] = m.angle_error_deg(root, root_yaw)
    out.by_frame["root_error_m"] = m.position_error_m(m.root_position(positions), m.root_position(true))
    out.values["hips_error_cm"] = out.by_frame["root_error_m"] * 100
    out.values["hips_height_error_cm"] = np.abs(positions[:, HIPS, 2] - true[:, HIPS, 2]) * 100
    ankles = [LEFT_FOOT, RIGHT_FOOT]
    out.values["ankle_error_cm"] = m.position_error_m(positions[:, ankles], true[:, ankles]).ravel() * 100
    for name, lag in (("start_lag_s", m.start_lag_s), ("stop_lag_s", m.stop_lag_s)):
        out.values[name] = lag(m.root_position(true), m.root_position(positions), DT)


def _against_devices(
    out: Measured, r: ChainResult, positions: F64, rotations: F64, times: F64, wanted: F64, known: Known
) -> F64:
    """Add the errors of the avatar relative to the body trackers to `out`, after a constant offset of each tracker is
    removed. Return the positions (F, 2) of the user's hips on the floor, NaN if unknown."""
    stamps = r.stamps_ns[0] + np.round(wanted * 1e9).astype(np.int64)
    hips = np.full((len(wanted), 2), np.nan)
    errors: dict[str, list[F64]] = {}
    for role, device in known.devices.items():
        joint, name = CARRIERS[role]
        p, q = device.at(stamps)
        offset = fit_offset(p, q, positions[:, joint], rotations[:, joint], wanted)
        if offset is None:
            continue
        out.offsets[role] = offset
        user, turned = offset.joint(p, q)
        if role != "waist":
            errors.setdefault(f"{name}_error_cm", []).append(m.position_error_m(positions[:, joint], user) * 100)
            continue
        hips = user[:, :2]
        errors["hips_error_cm"] = [m.position_error_m(positions[:, joint, :2], hips) * 100]
        errors["hips_height_error_cm"] = [np.abs(positions[:, joint, 2] - user[:, 2]) * 100]
        predicted = np.interp(wanted, times, np.unwrap(r.facing_yaw))
        # The waist tracker is compared with the avatar's pelvis, because this tracker does not measure the shoulders.
        for metric, yaw in (("predicted_facing", predicted), ("facing", m.facing_of_pelvis(positions))):
            out.by_frame[f"{metric}_error_deg"] = _yaw_error_deg(yaw, upright_yaw(turned), wanted)
    out.values.update({name: np.concatenate(parts) for name, parts in errors.items()})
    return hips


def upright_yaw(pelvis: F64) -> F64:
    """Return the yaw (F,) of the pelvis, and NaN in frames in which the pelvis is tilted by more than UPRIGHT_DEG,
    because a large tilt also changes the yaw of a waist tracker."""
    up = rot.rotate(pelvis, np.broadcast_to(np.array([0.0, 0.0, 1.0]), (len(pelvis), 3)))[:, 2]
    return np.where(up >= np.cos(np.radians(UPRIGHT_DEG)), rot.yaw_of(pelvis), np.nan)


def _yaw_error_deg(yaw: F64, user: F64, times: F64) -> F64:
    """Return the absolute difference of two yaws (F,) in degrees, without the median difference of the first FITTED_S
    seconds, because the strap turns the tracker by a constant angle."""
    apart = yaw - user
    first = apart[(times <= FITTED_S) & np.isfinite(apart)]
    mean = np.arctan2(np.sin(first).mean(), np.cos(first).mean()) if len(first) else 0.0
    constant = mean + np.median(rot.wrap_angle(first - mean)) if len(first) else 0.0
    return m.angle_error_deg(apart, np.full(len(apart), constant))


def _against_trackers(out: Measured, r: ChainResult, trackers: Any, arm: float | None) -> None:
    """Add to `out` the distances of headset and controllers from where the avatar would hold them; NaN for a lost
    device. The user's arms have the length `arm` [m]."""
    p, q = room(r.pose)
    seen = trackers.state != LOST
    at, turned = _carried(p[:, HEAD], q[:, HEAD], r.mounts[:, 0])
    head = np.where(seen[:, 0], m.position_error_m(at, trackers.positions[:, 0]), np.nan)
    turn = np.where(seen[:, 0], m.rotation_error_deg(turned, trackers.rotations[:, 0]), np.nan)
    out.values["head_error_m"], out.values["head_error_deg"] = head, turn
    hands, bends = [], []
    for role, joint in ((LEFT_HAND_ROLE, LEFT_HAND), (RIGHT_HAND_ROLE, RIGHT_HAND)):
        device, turned_device, grip = trackers.positions[:, role], trackers.rotations[:, role], r.mounts[:, role]
        error = m.position_error_m(_carried(p[:, joint], q[:, joint], grip)[0], device)
        local = r.pose.positions.astype(np.float64)
        length = np.linalg.norm(local[:, joint], axis=1) + np.linalg.norm(local[:, joint - 1], axis=1)
        away = m.position_error_m(p[:, joint - 2], _wrist(device, turned_device, grip))
        hands.append(np.where((away <= length) & seen[:, role], error, np.nan))
        good = (trackers.state[:, role] == TRACKED) & ~frozen(trackers, role)
        out.values.setdefault("hand_error_all_m", np.zeros(0))
        out.values["hand_error_all_m"] = np.concatenate([out.values["hand_error_all_m"], error[good]])
        bend, limit = wrist_bend(r.pose.rotations[good, joint].astype(np.float64))
        bends.append(bend)
        _count(out, "wrists", good)
        _count(out, "wrist_limit", limit >= WRIST_AT_LIMIT)
        _count(out, "in_solver_reach", away[good] <= length[good])
        _count(out, "in_reach", away[good] <= (length[good] if arm is None else arm))
    out.values["hand_error_m"] = np.stack(hands, 1).ravel()
    out.values["wrist_bend_deg"] = np.concatenate(bends)


def _count(out: Measured, name: str, hits: NDArray[np.bool_]) -> None:
    out.counts[name] = out.counts.get(name, 0.0) + float(hits.sum())


def wrist_bend(local: F64) -> tuple[F64, F64]:
    """Return the bend of the wrist (F,) in degrees and as a share of the wrist's limit. The bend of a wrist is the
    angle between hand and forearm without twist."""
    along = rot.rotate(local, np.broadcast_to(np.array([0.0, 1.0, 0.0]), (len(local), 3)))
    bend = np.degrees(np.arctan2(np.hypot(along[:, 0], along[:, 2]), along[:, 1]))
    v = rot.log(local)
    return bend, np.hypot(v[:, 0] / WRIST_BEND_LIMIT, v[:, 2] / WRIST_SIDE_LIMIT)


def frozen(trackers: Any, role: int) -> NDArray[np.bool_]:
    """Return for each sample (F,) whether the device repeats exactly one pose for FROZEN_S seconds or longer."""
    if getattr(trackers, "repeated", None) is not None:
        same = trackers.repeated[:, role]
    else:
        p, q = trackers.positions[:, role], trackers.rotations[:, role]
        same = np.concatenate([[False], (p[1:] == p[:-1]).all(1) & (q[1:] == q[:-1]).all(1)])
    run = np.cumsum(~same)  # successive samples with equal poses get the same number
    first, last = np.searchsorted(run, run, side="left"), np.searchsorted(run, run, side="right") - 1
    return np.asarray((trackers.stamps_ns[last] - trackers.stamps_ns[first]) * 1e-9 >= FROZEN_S)


def _carried(p: F64, q: F64, offset: F64) -> tuple[F64, F64]:
    return p + rot.rotate(q, offset[:, :3]), rot.multiply(q, offset[:, 3:])


def _wrist(p: F64, q: F64, offset: F64) -> F64:
    joint = rot.multiply(q, rot.inverse(offset[:, 3:]))
    return np.asarray(p - rot.rotate(joint, offset[:, :3]))


def of_truth(truth: Truth, pop_limit: float) -> Measured:
    """Compute the metrics of feet and smoothness for the true poses of the user, for comparison with the avatar."""
    out = of_body(truth.positions, truth.contacts, len(truth.positions) * DT, pop_limit)
    out.values.update({k: v for k, v in out.by_frame.items() if k in VALUES})
    return out


def pooled(parts: list[Measured]) -> dict[str, Any]:
    """Summarize the metrics of all clips. Statistics of metrics with many values are computed from the
    values of all clips; metrics with one number per clip are averaged, with the durations of the clips as weights."""
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
    counts: dict[str, float] = {}
    for part in parts:
        for name, value in part.counts.items():
            counts[name] = counts.get(name, 0.0) + value
    for name, (hits, every) in COUNTED.items():
        if counts.get(every):
            out[name] = counts[hits] / counts[every]
    out |= footfalls.figures(counts, np.concatenate([p.delays for p in parts]) if parts else np.zeros(0))
    offsets = pooled_offsets(parts)
    if offsets:
        out["offsets"] = offsets
    for share, error, raw in zip(look_ahead.SHARES, look_ahead.ERRORS, look_ahead.RAW_ERRORS, strict=True):
        if error in out:
            out[share] = out[error]["mean"] / max(out[raw]["mean"], 1e-9)
    return out


def intervals(parts: list[Measured]) -> dict[str, list[float]]:
    """Return the 95 % confidence interval [low, high] of each metric in WITH_INTERVAL, by bootstrap over the
    recordings. For fewer than 5 recordings, the result is empty."""
    if len(parts) < FEWEST:
        return {}
    names = {name for name, _ in WITH_INTERVAL}
    light = [
        replace(p, values={k: v for k, v in p.values.items() if k in names},
                numbers={k: v for k, v in p.numbers.items() if k in names}, offsets={})
        for p in parts
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    drawn = [pooled([light[i] for i in rng.integers(len(light), size=len(light))]) for _ in range(DRAWS)]
    out = {}
    for name, statistic in WITH_INTERVAL:
        values = [v[statistic] if statistic else v for d in drawn if (v := d.get(name)) is not None]
        if values:
            out[f"{name} {statistic}" if statistic else name] = np.percentile(values, [2.5, 97.5]).tolist()
    return out


def pooled_offsets(parts: list[Measured]) -> dict[str, dict[str, float]]:
    """Return the mean and the largest size of the offset between each body tracker and its joint over all
    recordings."""
    out = {}
    for role in dict.fromkeys(role for p in parts for role in p.offsets):
        sizes = np.array([(p.offsets[role].centimetres, p.offsets[role].degrees) for p in parts if role in p.offsets])
        names = ("mean_cm", "mean_deg", "largest_cm", "largest_deg")
        out[role] = dict(zip(names, (*sizes.mean(0).tolist(), *sizes.max(0).tolist()), strict=True))
    return out


def by_kind(parts: list[Measured], kinds: list[NDArray[np.int8]], names: tuple[str, ...]) -> dict[str, Any]:
    """Summarize the metrics that have one value per frame, separately for each kind of motion."""
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
