"""Filters the poses of trackers without delay: plausible samples are passed on unchanged, and others are replaced.

The gate refuses a sample if the source marks it as not tracked, if its values are zero or not finite, if the pose is
frozen, if the device is out of reach of the head, or if the device cannot have moved so far. An extrapolation that
comes to rest replaces refused samples; after `extrapolate_s` the tracker is LOST. If the samples stay at a new position
for `confirm_s`, the new position is accepted, and the output blends to it. If the gate only limited the speed, the
output would slowly follow a pose that drifts away.
"""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.settings import Settings, setting
from mm_ros.body.timeline import DROP, HOLD, RESET, Timeline, is_identity
from mm_ros.body.types import (
    EXTRAPOLATED,
    F64,
    HEAD_ROLE,
    LOST,
    TRACKED,
    WAIST_ROLE,
    R,
    TrackerFrame,
    identity_pose,
)
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.packed import packed
from mm_ros.maths.quat import Quat, Vec
from mm_ros.maths.springs import damping_share
from mm_ros.tracking.motion import KEPT, end_velocities

# Sources stamp frames irregularly: the stamps of two frames can be 2 ms apart while their poses are 11 ms apart.
STAMP_JITTER_S = 0.011
BLENDED_M, BLENDED_RAD = 2e-4, 1e-3  # A blend ends when the output is nearer than this to the new pose [m, rad].
REPEATED_S = 0.1  # A device that repeats its last pose for this time [s] gets the state EXTRAPOLATED.
SEEN_M = 0.001  # A device whose output is farther than this from its raw position [m] gets the state EXTRAPOLATED.


@dataclass(frozen=True)
class GateSettings(Settings):
    extrapolate_s: float = setting(
        0.3,
        "Time for which a tracker is extrapolated after a loss, before the tracker counts as LOST.",
        "s", 0.0, 2.0,
    )
    rest_halflife_s: float = setting(
        0.06,
        "Half-life of the velocity while a tracker is extrapolated; with a larger half-life the extrapolated pose "
        "moves farther.",
        "s", 0.01, 1.0,
    )
    frozen_s: float = setting(
        0.5, "Time after which a pose that does not change at all is refused as frozen. If `frozen_s` is 0, even "
             "frozen poses are accepted.", "s", 0, 10
    )
    confirm_s: float = setting(
        0.05,
        "Time for which a device must stay at a new position after a jump until the new position is accepted; a larger "
        "`confirm_s` rejects longer disturbances.",
        "s", 0.0, 0.5,
    )
    blend_halflife_s: float = setting(
        0.06,
        "Half-life of the difference between output and device while the output blends to a new pose; with a larger "
        "half-life the blend is smoother.",
        "s", 0.01, 1.0,
    )
    blend_speed: float = setting(
        0.7,
        "Maximum speed of the output while it blends to a new pose; with a larger `blend_speed` the blend is shorter.",
        "m/s", 0.1, 10.0,
    )
    blend_turn_speed: float = setting(
        4.0, "Maximum turn rate that a blend to a new pose adds to the output; with a larger "
             "`blend_turn_speed` the blend is shorter.", "rad/s", 0.5, 50.0
    )
    jump_m: float = setting(
        0.028,
        "Positions that are nearer than `jump_m` to the expected one are not jumps; a larger `jump_m` accepts larger "
        "jumps.",
        "m", 0.0, 1.0,
    )
    jump_rad: float = setting(
        0.7,
        "Turns by less than `jump_rad` from the expected rotation are not jumps; a larger value accepts larger turns.",
        "rad", 0.0, 3.2,
    )
    acceleration: float = setting(
        60.0, "Maximum plausible acceleration of a device; a sample that needs a larger acceleration is treated as a "
        "jump.", "m/s²", 10.0, 5000.0
    )
    hand_speed: float = setting(12.0, "Maximum plausible speed of controllers and body trackers.", "m/s", 1.0, 50.0)
    head_speed: float = setting(5.0, "Maximum plausible speed of the headset.", "m/s", 1.0, 50.0)
    turn_speed: float = setting(50.0, "Maximum plausible turn rate of any tracked device.", "rad/s", 5.0, 200.0)
    reach_m: float = setting(
        1.5, "Maximum distance of a controller from the headset; controllers that are farther away are ignored. Body "
        "trackers may be 1.5 times as far from the headset as controllers.", "m", 0.5, 10.0
    )
    velocity_window_s: float = setting(
        0.06,
        "The velocity of a device is fitted to its samples in the last `velocity_window_s`; with a larger value "
        "velocities are smoother, but follow changes later.",
        "s", 0.01, 0.5,
    )
    new_epoch_s: float = setting(
        2.0,
        "Duration of a loss of the headset above which a new epoch starts, in which all stages reset.",
        "s", 0.5, 60.0,
    )


Numbers = namedtuple("Numbers", tuple(GateSettings.specs()))  # type: ignore[misc]  # the settings for the kernel


class Devices(NamedTuple):
    """State of the filter: row r of each array belongs to the device with the role `ROLES[r]`."""

    p: F64  # (R, 3) the output
    q: F64  # (R, 4)
    v: F64  # (R, 3)
    w: F64  # (R, 3)
    raw_p: F64  # (R, 3) position in the last valid raw pose, even if it was refused as out of reach or as a jump
    raw_q: F64  # (R, 4)
    off_p: F64  # (R, 3) output position minus raw position, which decays after an accepted jump
    off_q: F64  # (R, 4)
    n: NDArray[np.int64]  # (R, COUNTS) counters and stamps, whose columns are named by constants from KNOWN to ZERO_NS
    times: F64  # (R, 2, KEPT) times of the last samples of a device's two motions (see IN_USE), the newest first [s]
    positions: F64  # (R, 2, KEPT, 3)
    rotations: F64  # (R, 2, KEPT, 4)


# The constants `KNOWN` to `ZERO_NS` are columns of the array `Devices.n`. Column `BRIDGED` counts a device's samples
# since the last accepted sample, `REPEATS` counts how often the device has repeated its last pose, and `FROZEN` is 1
# after the pose has been repeated for `frozen_s`. Each device has two motions: one at the accepted position, and one at
# a new position that is not confirmed yet. `IN_USE` is the index of the motion at the accepted position.
KNOWN, BRIDGED, ACCEPTED, STATE, REPEATS, FROZEN, RAW_NS, CHANGED_NS, GOOD_NS, SAMPLED_NS, OTHER_NS, IN_USE = range(12)
HELD, ZERO_NS, COUNTS = 12, 14, 16  # first column of both motions' sample counts and start stamps; number of columns
REASONS = ("flag", "zero", "frozen", "reach", "jump")
FLAG, ZEROED, FROZEN_POSE, REACH, JUMP = range(1, 6)  # reasons for which a sample is refused; 0: accepted


def make_devices() -> Devices:
    p, q = np.zeros((4, R, 3)), np.zeros((3, R, 4))
    q[:, :, 0] = 1.0
    kept = np.zeros((R, 2, KEPT)), np.zeros((R, 2, KEPT, 3)), np.zeros((R, 2, KEPT, 4))
    n = np.zeros((R, COUNTS), np.int64)
    n[:, STATE] = LOST
    return Devices(p[0], q[0], p[1], p[2], p[3], q[1], np.zeros((R, 3)), q[2], n, *kept)


class TrackerGate:
    def __init__(self, settings: GateSettings = GateSettings()) -> None:
        self.settings = settings
        self._refusals = np.zeros(1 + len(REASONS), np.int64)
        self._timeline = Timeline()
        self._added_epochs = 0  # number of restarts (epochs) that the gate has added to those of the source
        self._raw_epoch: int | None
        self._clear()
        self._last_ns = self._head_seen_ns = 0

    @property
    def settings(self) -> GateSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: GateSettings) -> None:
        self._settings = settings
        self._numbers, _ = packed(Numbers(*settings.numbers()))

    @property
    def refused(self) -> dict[str, int]:
        """Number of samples of the trackers that the gate has refused, by reason."""
        return dict(zip(REASONS, self._refusals[1:].tolist(), strict=True))

    def reset(self) -> None:
        """Clear all state, and start a new epoch with the next sample, so that all later stages reset."""
        if self._raw_epoch is not None:
            self._added_epochs += 1
        self._clear()
        self._timeline.reset()

    def _clear(self) -> None:
        self._raw_epoch = None
        self._memory, self._devices = packed(make_devices())

    def step(self, raw: TrackerFrame) -> TrackerFrame | None:
        """Return the tracker frame `raw` with filtered poses, or None for a duplicate or late frame."""
        verdict, _ = self._timeline.judge(raw.stamp_ns, raw.epoch, raw.new_from_old)
        if verdict == DROP:
            return None
        self._begin(raw, verdict)
        dt = max(0.0, (raw.stamp_ns - self._last_ns) * 1e-9)
        self._last_ns = raw.stamp_ns
        out = TrackerFrame(raw.stamp_ns, raw.epoch + self._added_epochs, new_from_old=raw.new_from_old.copy())
        if _step(
            self._memory, self._numbers, self._refusals, raw.positions.astype(np.float64),
            raw.rotations.astype(np.float64), raw.state.astype(np.uint8), raw.sampled_ns.astype(np.int64),
            raw.stamp_ns, dt, out.positions, out.rotations, out.velocities, out.angular_velocities, out.state,
            out.sampled_ns,
        ):  # fmt: skip
            self._head_seen_ns = raw.stamp_ns
        return out

    def _begin(self, raw: TrackerFrame, verdict: str) -> None:
        """Reset or transform the stored state after a new epoch, a gap or a move of the play space."""
        if verdict == RESET:
            if raw.epoch == self._raw_epoch:  # the source's clock went back, but the source did not start a new epoch
                self._added_epochs += 1
            self._clear()
        elif not is_identity(raw.new_from_old):
            _carry(self._memory, np.array(raw.new_from_old, np.float64))
        if verdict == HOLD or self._head_returns(raw):
            gap = (raw.stamp_ns - self._head_seen_ns) * 1e-9
            if gap > self.settings.new_epoch_s:
                self._added_epochs += 1
                self._clear()
        if self._raw_epoch is None:
            self._last_ns = self._head_seen_ns = raw.stamp_ns
        self._raw_epoch = raw.epoch

    def _head_returns(self, raw: TrackerFrame) -> bool:
        """Return true if the headset was lost and is tracked again; a pose that is still frozen does not count."""
        d = self._devices
        if d.n[HEAD_ROLE, STATE] != LOST or raw.state[HEAD_ROLE] == LOST:
            return False
        same = (raw.positions[HEAD_ROLE] == d.raw_p[HEAD_ROLE]).all()
        return not (d.n[HEAD_ROLE, FROZEN] and same and (raw.rotations[HEAD_ROLE] == d.raw_q[HEAD_ROLE]).all())


@njit
def _step(
    d: Any, s: Any, refusals: Any, raw_positions: Any, raw_rotations: Any, raw_states: Any, raw_sampled: Any,
    now: int, dt: float, positions: Any, rotations: Any, velocities: Any, angular_velocities: Any, states: Any,
    sampled_ns: Any,
) -> bool:  # fmt: skip
    """Filter the samples of all devices in a frame with the stamp `now` [ns], write the output arrays, and return true
    if the sample of the headset was accepted."""
    d, s = d[0], s[0]
    seen, head = False, (0.0, 0.0, 0.0)
    for r in range(len(raw_states)):
        state = int(raw_states[r])
        if state == LOST and not d.n[r, KNOWN]:
            continue  # the output of a device that was never tracked keeps the initial values of a frame
        p, q = quat.get3(raw_positions, r), quat.get4(raw_rotations, r)
        sampled = raw_sampled[r] if raw_sampled[r] != 0 else now
        reason = _device(d, s, r, state, p, q, sampled, now, dt, seen, head)
        refusals[reason] += 1
        d.n[r, ACCEPTED] = reason == 0
        if r == HEAD_ROLE and reason == 0:
            seen, head = True, quat.get3(d.raw_p, r)
        positions[r], rotations[r], velocities[r], angular_velocities[r] = d.p[r], d.q[r], d.v[r], d.w[r]
        states[r], sampled_ns[r] = d.n[r, STATE], d.n[r, SAMPLED_NS]
    return seen


@njit
def _device(
    d: Any, s: Any, r: int, state: int, p: Vec, q: Quat, sampled: int, now: int, dt: float, seen: bool, head: Vec
) -> int:
    n = d.n[r]
    before, repeats = n[ACCEPTED] != 0, n[REPEATS]
    reason = _refusal(d, s, r, state, p, q, sampled, now, seen, head)
    if reason == 0 and n[KNOWN]:
        reason = _jump(d, s, r, p, q, sampled)
    if reason != 0:
        if reason == JUMP and before:
            # The samples before a jump may already be wrong, so the speed of the extrapolation is limited.
            quat.put3(d.v, r, quat.shortened(quat.get3(d.v, r), 1.2 * s.blend_speed))
        _bridge(d, s, r, now, dt)
        n[BRIDGED] += 1
        return reason
    thawed = repeats >= 2 and n[REPEATS] == 0
    if n[KNOWN] and (not before or thawed):
        _start_blend(d, s, r, dt, p, q, not before)
    else:
        _blend(d, s, r, dt)
    n[KNOWN], n[GOOD_NS], n[BRIDGED] = 1, now, 0
    if sampled > n[SAMPLED_NS]:
        _push(d, r, n[IN_USE], sampled, p, q)
        n[SAMPLED_NS] = sampled
    off_q = quat.get4(d.off_q, r)
    quat.put3(d.p, r, quat.add(p, quat.get3(d.off_p, r)))
    quat.put4(d.q, r, q if off_q == (1.0, 0.0, 0.0, 0.0) else quat.mul(off_q, q))
    v, w = _motion(d, s, r, n[IN_USE])
    quat.put3(d.v, r, v)
    quat.put3(d.w, r, w)
    repeated = s.frozen_s > 0.0 and n[REPEATS] > 0 and (now - n[CHANGED_NS]) * 1e-9 > REPEATED_S
    n[STATE] = EXTRAPOLATED if repeated or quat.norm(quat.get3(d.off_p, r)) > SEEN_M else state
    return 0


@njit
def _refusal(
    d: Any, s: Any, r: int, state: int, p: Vec, q: Quat, sampled: int, now: int, seen: bool, head: Vec
) -> int:
    """Return why a sample is refused (state, values, repeated pose, distance from the head), or 0 if it is good."""
    n = d.n[r]
    # An extrapolated headset is accepted, because a headset without cameras always extrapolates its position. A
    # controller whose pose the runtime extrapolates is refused, because this pose drifts away within a second.
    if state == LOST or (state == EXTRAPOLATED and r != HEAD_ROLE):
        return FLAG
    length = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    if p == (0.0, 0.0, 0.0) or not math.isfinite(p[0] + p[1] + p[2]) or not abs(length - 1.0) <= 0.01:
        return ZEROED
    if (p != quat.get3(d.raw_p, r) or q != quat.get4(d.raw_q, r)) and sampled >= n[RAW_NS]:
        quat.put3(d.raw_p, r, p)
        quat.put4(d.raw_q, r, q)
        n[RAW_NS], n[CHANGED_NS], n[REPEATS], n[FROZEN] = sampled, now, 0, 0
    else:
        n[REPEATS] += 1
        if s.frozen_s > 0.0 and (now - n[CHANGED_NS]) * 1e-9 >= s.frozen_s:
            n[FROZEN] = 1
            return FROZEN_POSE
    if seen and quat.norm(quat.sub(p, head)) > s.reach_m * (1.0 if r < WAIST_ROLE else 1.5):
        return REACH
    return 0


@njit
def _jump(d: Any, s: Any, r: int, p: Vec, q: Quat, sampled: int) -> int:
    """Return JUMP if the device cannot have moved to the position `p` and `p` is not confirmed yet, else 0."""
    n = d.n[r]
    m, other = n[IN_USE], 1 - n[IN_USE]
    if _plausible(d, s, r, m, p, q, sampled, s.acceleration):
        n[HELD + other] = 0
        return 0
    if n[HELD + other] == 0 or not _plausible(d, s, r, other, p, q, sampled, 5.0 * s.acceleration):
        n[HELD + other] = 0
        n[OTHER_NS] = sampled
    _push(d, r, other, sampled, p, q)
    if (sampled - n[OTHER_NS]) * 1e-9 < s.confirm_s:
        return JUMP
    n[IN_USE], n[HELD + m] = other, 0
    return 0


@njit
def _plausible(d: Any, s: Any, r: int, m: int, p: Vec, q: Quat, sampled: int, acceleration: float) -> bool:
    held = d.n[r, HELD + m]
    if held == 0:
        return True
    v, w = _motion(d, s, r, m)
    dt = max(sampled * 1e-9 - (d.n[r, ZERO_NS + m] * 1e-9 + d.times[r, m, 0]), STAMP_JITTER_S)
    speed, turn = quat.norm(v), quat.norm(w)
    step = quat.sub(p, quat.get3(d.positions[r, m], 0))
    # The expected position follows from a continued motion or from a sudden stop, whichever is nearer, because a fist
    # may hit a table.
    off = min(quat.norm(step), quat.norm(quat.sub(step, quat.scale(v, dt))))
    top = s.head_speed if r == HEAD_ROLE else s.hand_speed
    # With only two samples the velocity is inexact, so the next position is limited only by the maximum speed.
    gained = 0.5 * acceleration * dt * dt if held > 2 else math.inf
    room = s.jump_m + min(speed * dt + gained, top * dt)
    angle = quat.angle_of(quat.mul_inv(q, quat.get4(d.rotations[r, m], 0)))
    return bool(off <= room and angle <= s.jump_rad + min(2.0 * turn * dt + 400.0 * dt * dt, s.turn_speed * dt))


@njit
def _bridge(d: Any, s: Any, r: int, now: int, dt: float) -> None:
    """Extrapolate a device's last output pose with decaying velocity; after `extrapolate_s` the device is LOST."""
    if not d.n[r, KNOWN]:
        return
    if (now - d.n[r, GOOD_NS]) * 1e-9 > s.extrapolate_s:
        d.n[r, STATE] = LOST
        d.v[r], d.w[r] = 0.0, 0.0
        return
    d.n[r, STATE] = EXTRAPOLATED
    _drift(d, s, r, dt)


@njit
def _drift(d: Any, s: Any, r: int, dt: float) -> None:
    v, w = quat.get3(d.v, r), quat.get3(d.w, r)
    share = damping_share(s.rest_halflife_s, dt)
    seconds = s.rest_halflife_s / math.log(2.0) * share
    quat.put3(d.p, r, quat.add(quat.get3(d.p, r), quat.scale(v, seconds)))
    quat.put4(d.q, r, quat.normalize(quat.mul(quat.exp(quat.scale(w, seconds)), quat.get4(d.q, r))))
    quat.put3(d.v, r, quat.scale(v, 1.0 - share))
    quat.put3(d.w, r, quat.scale(w, 1.0 - share))


@njit
def _start_blend(d: Any, s: Any, r: int, dt: float, p: Vec, q: Quat, lost: bool) -> None:
    n = d.n[r]
    if lost and n[STATE] == EXTRAPOLATED:
        _drift(d, s, r, dt)
    elif lost:
        n[HELD + n[IN_USE]] = 0
    off_p, off_q = quat.sub(quat.get3(d.p, r), p), quat.mul_inv(quat.get4(d.q, r), q)
    if off_q[0] < 0.0:
        off_q = (-off_q[0], -off_q[1], -off_q[2], -off_q[3])
    away = quat.norm(off_p)
    # After a single refused sample, the jump of the output is only the motion of two frames, so no blend is needed.
    within = n[BRIDGED] == 1 and away <= 2.0 * dt * quat.norm(_motion(d, s, r, n[IN_USE])[0])
    # A small jump of a device that was not lost needs no blend, because the source has only repeated a pose before.
    if within or (not lost and away < s.jump_m):
        off_p, off_q = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
    quat.put3(d.off_p, r, off_p)
    quat.put4(d.off_q, r, off_q)
    _blend(d, s, r, dt)


@njit
def _blend(d: Any, s: Any, r: int, dt: float) -> None:
    """Reduce the offset of a blend, more slowly while the device moves, so that the speed of the output stays below
    `blend_speed`."""
    off_p, off_q = quat.get3(d.off_p, r), quat.get4(d.off_q, r)
    if off_p == (0.0, 0.0, 0.0) and off_q == (1.0, 0.0, 0.0, 0.0):
        return
    # Right after a loss, the speed of the device is not known, so the blend has its lowest speed.
    m = d.n[r, IN_USE]
    own = quat.norm(_motion(d, s, r, m)[0]) if d.n[r, HELD + m] > 3 else math.inf
    left = 1.0 - damping_share(s.blend_halflife_s, dt)
    away = quat.norm(off_p)
    if away > 0.0:
        most = max(s.blend_speed - own, 0.2 * s.blend_speed) * dt
        keep = max(left, 1.0 - most / away)
        quat.put3(d.off_p, r, quat.scale(off_p, keep) if away * keep > BLENDED_M else (0.0, 0.0, 0.0))
    angle = quat.angle_of(off_q)
    if angle > 0.0:
        keep = max(left, 1.0 - s.blend_turn_speed * dt / angle)
        quat.put4(d.off_q, r, quat.share(off_q, keep) if angle * keep > BLENDED_RAD else (1.0, 0.0, 0.0, 0.0))


@njit
def _push(d: Any, r: int, m: int, sampled: int, p: Vec, q: Quat) -> None:
    n, times, positions, rotations = d.n[r], d.times[r, m], d.positions[r, m], d.rotations[r, m]
    if n[HELD + m] == 0:
        n[ZERO_NS + m] = sampled
    held = min(n[HELD + m] + 1, KEPT)
    n[HELD + m] = held
    for i in range(held - 1, 0, -1):
        times[i] = times[i - 1]
        quat.put3(positions, i, positions[i - 1])
        quat.put4(rotations, i, rotations[i - 1])
    times[0] = (sampled - n[ZERO_NS + m]) * 1e-9
    quat.put3(positions, 0, p)
    quat.put4(rotations, 0, q)


@njit
def _motion(d: Any, s: Any, r: int, m: int) -> tuple[Vec, Vec]:
    held = d.n[r, HELD + m]
    if held < 2:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    return end_velocities(d.times[r, m], d.positions[r, m], d.rotations[r, m], held, s.velocity_window_s)


@njit
def _carry(d: Any, moved: Any) -> None:
    """Transform the stored poses and velocities of all devices by `moved`, because the play space was moved."""
    d = d[0]
    t, turn = (moved[0], moved[1], moved[2]), (moved[3], moved[4], moved[5], moved[6])
    for r in range(len(d.n)):
        if not d.n[r, KNOWN]:
            continue
        for places, turns in ((d.p, d.q), (d.raw_p, d.raw_q)):
            quat.put3(places, r, quat.add(quat.rotate(turn, quat.get3(places, r)), t))
            quat.put4(turns, r, quat.mul(turn, quat.get4(turns, r)))
        for rates in (d.v, d.w, d.off_p):
            quat.put3(rates, r, quat.rotate(turn, quat.get3(rates, r)))
        quat.put4(d.off_q, r, quat.mul_inv(quat.mul(turn, quat.get4(d.off_q, r)), turn))
        for m in range(2):
            for i in range(d.n[r, HELD + m]):
                at = quat.get3(d.positions[r, m], i)
                quat.put3(d.positions[r, m], i, quat.add(quat.rotate(turn, at), t))
                quat.put4(d.rotations[r, m], i, quat.mul(turn, quat.get4(d.rotations[r, m], i)))


def warm_up() -> None:
    """Compile all functions of the gate by one second of samples with a loss, a jump and a re-centring."""
    gate = TrackerGate()
    moved = identity_pose()
    moved[0] = 1e-3
    for i in range(90):
        frame = TrackerFrame(1_000_000_000 + i * 11_111_111)
        frame.positions[:] = 1.0 + 0.001 * i + (5.0 if 30 < i < 33 else 0.0)
        frame.state[:] = LOST if 50 < i < 60 else TRACKED
        if i == 70:
            frame.new_from_old = moved
        gate.step(frame)
