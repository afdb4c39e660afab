"""The plausibility check of tracker samples in readable Python, with which tests compare mm_ros/tracking/gate.py."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.timeline import DROP, HOLD, RESET, Timeline, is_identity
from mm_ros.body.types import EXTRAPOLATED, HEAD_ROLE, LOST, R, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.quat import IDENTITY, Quat, Vec
from mm_ros.maths.springs import damping_share
from mm_ros.tracking.gate import BLENDED_M, BLENDED_RAD, REPEATED_S, SEEN_M, STAMP_JITTER_S, GateSettings
from mm_ros.tracking.motion import KEPT, end_velocities

ZERO: Vec = (0.0, 0.0, 0.0)
STILL: tuple[Vec, Vec] = (ZERO, ZERO)


class Motion:
    """The last samples of one tracked device, the newest first."""

    def __init__(self) -> None:
        self.times, self.positions, self.rotations = np.zeros(KEPT), np.zeros((KEPT, 3)), np.zeros((KEPT, 4))
        self.clear()

    def clear(self) -> None:
        self.held, self.zero_ns = 0, 0

    def push(self, sampled_ns: int, p: Vec, q: Quat) -> None:
        if self.held == 0:
            self.zero_ns = sampled_ns
        for a in (self.times, self.positions, self.rotations):
            a[1:] = a[:-1]
        self.times[0] = (sampled_ns - self.zero_ns) * 1e-9
        self.positions[0], self.rotations[0] = p, q
        self.held = min(self.held + 1, KEPT)

    def velocities(self, window_s: float) -> tuple[Vec, Vec]:
        """Return the device's linear and angular velocity in room axes at the newest sample."""
        if self.held < 2:
            return STILL
        v, w = end_velocities(self.times, self.positions, self.rotations, self.held, window_s)
        return v, w

    def carry(self, p: Vec, q: Quat) -> None:
        """Transform all samples by the position `p` and rotation `q` by which the play space has moved."""
        for i in range(self.held):
            self.positions[i] = quat.add(quat.rotate(q, quat.get3(self.positions, i)), p)
            self.rotations[i] = quat.mul(q, quat.get4(self.rotations, i))


class TrackerGate:
    def __init__(self, settings: GateSettings) -> None:
        self.settings = settings
        self.refused = dict.fromkeys(("flag", "zero", "frozen", "reach", "jump"), 0)
        self._timeline = Timeline()
        self._devices = [_Device(r, self.refused) for r in range(R)]
        self._added_epochs = 0  # number of epochs that the gate has added to the epochs of the source
        self._raw_epoch: int | None = None
        self._last_ns = self._head_seen_ns = 0

    def reset(self) -> None:
        """Clear all state of the gate, so that the next sample starts a new epoch."""
        if self._raw_epoch is not None:
            self._added_epochs += 1
        self._clear()
        self._timeline.reset()

    def _clear(self) -> None:
        self._raw_epoch = None
        self._devices = [_Device(r, self.refused) for r in range(R)]

    def step(self, raw: TrackerFrame) -> TrackerFrame | None:
        """Return the filtered tracker frame, or None for a duplicate or late frame."""
        verdict, _ = self._timeline.judge(raw.stamp_ns, raw.epoch, raw.new_from_old)
        if verdict == DROP:
            return None
        self._begin(raw, verdict)
        dt = max(0.0, (raw.stamp_ns - self._last_ns) * 1e-9)
        self._last_ns = raw.stamp_ns
        out = TrackerFrame(raw.stamp_ns, raw.epoch + self._added_epochs, new_from_old=raw.new_from_old.copy())
        head: Vec | None = None
        states = raw.state.tolist()
        for r, device in enumerate(self._devices):
            if states[r] == LOST and not device.known:
                continue  # The device stays LOST in `out`.
            device.step(self.settings, raw, dt, head)
            if r == HEAD_ROLE and device.accepted:
                self._head_seen_ns, head = raw.stamp_ns, device.raw_p
            device.write(out)
        return out

    def _begin(self, raw: TrackerFrame, verdict: str) -> None:
        """Handle a new epoch, a gap or a transform of the play space, before the samples are filtered."""
        if verdict == RESET:
            if raw.epoch == self._raw_epoch:  # the source's clock went back without a new epoch
                self._added_epochs += 1
            self._clear()
        elif not is_identity(raw.new_from_old):
            moved = tuple(raw.new_from_old.tolist())
            for device in self._devices:
                device.carry(moved[:3], moved[3:])
        if verdict == HOLD or self._head_returns(raw):
            gap = (raw.stamp_ns - self._head_seen_ns) * 1e-9
            if gap > self.settings.new_epoch_s:
                self._added_epochs += 1
                self._clear()
        if self._raw_epoch is None:
            self._last_ns = self._head_seen_ns = raw.stamp_ns
        self._raw_epoch = raw.epoch

    def _head_returns(self, raw: TrackerFrame) -> bool:
        """Return whether a lost headset has a new pose, which must not repeat the refused pose."""
        head = self._devices[HEAD_ROLE]
        return bool(raw.state[HEAD_ROLE] != LOST) and head.state == LOST and not head.repeats_pose(raw)


class _Device:
    """The filter of one tracked device, with its state."""

    def __init__(self, role: int, refused: dict[str, int]) -> None:
        self.role, self.refused = role, refused
        self.known = False
        self.bridged = 0  # number of refused samples since the last accepted one
        self.accepted = False
        self.state = LOST
        self.p, self.q, self.v, self.w = ZERO, IDENTITY, ZERO, ZERO  # the output
        self.raw_p, self.raw_q = ZERO, IDENTITY  # pose of the last sample, accepted or refused
        self.repeats = 0  # number of samples that repeat the last raw pose
        self.frozen = False  # whether the source has repeated the last pose for `frozen_s`
        self.raw_ns = self.changed_ns = self.good_ns = self.sampled_ns = 0
        self.off_p, self.off_q = ZERO, IDENTITY  # offset of the output from the raw pose during a blend
        self.motion, self.other = Motion(), Motion()  # samples at the accepted place, and at an unconfirmed place
        self.other_since_ns = 0

    def step(self, s: GateSettings, raw: TrackerFrame, dt: float, head: Vec | None) -> None:
        r, now = self.role, raw.stamp_ns
        state = int(raw.state[r])
        if state == LOST and not self.known:
            return
        p: Vec = tuple(raw.positions[r].tolist())
        q: Quat = tuple(raw.rotations[r].tolist())
        sampled = int(raw.sampled_ns[r]) or now
        before, repeats = self.accepted, self.repeats
        reason = self._refusal(s, state, p, q, sampled, now, head)
        if not reason and self.known:
            reason = self._jump(s, p, q, sampled)
        self.accepted = not reason
        if reason:
            self.refused[reason] += 1
            if reason == "jump" and before:
                # The last accepted samples may already belong to a pose that drifts away, so the speed is limited.
                self.v = quat.shortened(self.v, 1.2 * s.blend_speed)
            self._bridge(s, now, dt)
            self.bridged += 1
            return
        thawed = repeats >= 2 and self.repeats == 0
        if self.known and (not before or thawed):
            self._start_blend(s, dt, p, q, not before)
        else:
            self._blend(s, dt, p)
        self.known, self.good_ns, self.bridged = True, now, 0
        if sampled > self.sampled_ns:
            self.motion.push(sampled, p, q)
            self.sampled_ns = sampled
        self.p, self.q = quat.add(p, self.off_p), quat.mul(self.off_q, q)
        if self.off_q == IDENTITY:
            self.q = q
        self.v, self.w = self.motion.velocities(s.velocity_window_s)
        repeated = s.frozen_s and self.repeats and (now - self.changed_ns) * 1e-9 > REPEATED_S
        self.state = EXTRAPOLATED if repeated or quat.norm(self.off_p) > SEEN_M else state

    def _refusal(self, s: GateSettings, state: int, p: Vec, q: Quat, sampled: int, now: int, head: Vec | None) -> str:
        """Return why a sample is refused, without a comparison with earlier motion; "" if it is not refused."""
        # A headset without cameras always extrapolates its position; an extrapolated controller drifts within a second.
        if state == LOST or (state == EXTRAPOLATED and self.role != HEAD_ROLE):
            return "flag"
        if p == ZERO or not all(map(math.isfinite, (*p, *q))) or abs(math.hypot(*q) - 1.0) > 0.01:
            return "zero"
        if (p != self.raw_p or q != self.raw_q) and sampled >= self.raw_ns:
            self.raw_p, self.raw_q, self.raw_ns, self.changed_ns, self.repeats = p, q, sampled, now, 0
            self.frozen = False
        else:
            self.repeats += 1
            if s.frozen_s and (now - self.changed_ns) * 1e-9 >= s.frozen_s:
                self.frozen = True
                return "frozen"
        if head is not None and quat.norm(quat.sub(p, head)) > s.reach_m * (1 if self.role < 3 else 1.5):
            return "reach"
        return ""

    def _jump(self, s: GateSettings, p: Vec, q: Quat, sampled: int) -> str:
        """Return "jump" if the device cannot have moved to `p` and later samples have not confirmed `p`, else ""."""
        m = self.motion
        if self._plausible(s, m, p, q, sampled, s.acceleration):
            self.other.clear()
            return ""
        if self.other.held == 0 or not self._plausible(s, self.other, p, q, sampled, 5 * s.acceleration):
            self.other.clear()
            self.other_since_ns = sampled
        self.other.push(sampled, p, q)
        if (sampled - self.other_since_ns) * 1e-9 < s.confirm_s:
            return "jump"
        self.motion, self.other = self.other, m
        self.other.clear()
        return ""

    def _plausible(self, s: GateSettings, m: Motion, p: Vec, q: Quat, sampled: int, acceleration: float) -> bool:
        if m.held == 0:
            return True
        v, w = m.velocities(s.velocity_window_s)
        dt = max(sampled * 1e-9 - (m.zero_ns * 1e-9 + float(m.times[0])), STAMP_JITTER_S)
        speed, turn = quat.norm(v), quat.norm(w)
        last_p, last_q = quat.get3(m.positions, 0), quat.get4(m.rotations, 0)
        step = quat.sub(p, last_p)
        # The smaller deviation from continued motion and from a sudden stop counts, because a fist may hit a table.
        off = min(quat.norm(step), quat.norm(quat.sub(step, quat.scale(v, dt))))
        top = s.head_speed if self.role == HEAD_ROLE else s.hand_speed
        # The velocity is unknown after the first two samples, so only the maximum speed limits the step.
        gained = 0.5 * acceleration * dt * dt if m.held > 2 else math.inf
        room = s.jump_m + min(speed * dt + gained, top * dt)
        angle = quat.angle_of(quat.mul_inv(q, last_q))
        return off <= room and angle <= s.jump_rad + min(2.0 * turn * dt + 400.0 * dt * dt, s.turn_speed * dt)

    def _bridge(self, s: GateSettings, now: int, dt: float) -> None:
        """Extrapolate the last output with a decaying velocity; after `extrapolate_s` the device is LOST."""
        if not self.known:
            return
        if (now - self.good_ns) * 1e-9 > s.extrapolate_s:
            self.state, self.v, self.w = LOST, ZERO, ZERO
            return
        self.state = EXTRAPOLATED
        self._drift(s, dt)

    def _drift(self, s: GateSettings, dt: float) -> None:
        share = damping_share(s.rest_halflife_s, dt)
        seconds = s.rest_halflife_s / math.log(2.0) * share
        self.p = quat.add(self.p, quat.scale(self.v, seconds))
        self.q = quat.normalize(quat.mul(quat.exp(quat.scale(self.w, seconds)), self.q))
        self.v, self.w = quat.scale(self.v, 1.0 - share), quat.scale(self.w, 1.0 - share)

    def _start_blend(self, s: GateSettings, dt: float, p: Vec, q: Quat, lost: bool) -> None:
        """Start a blend after a loss, whose offset is the extrapolated output minus the new raw pose."""
        if lost and self.state == EXTRAPOLATED:
            self._drift(s, dt)
        elif lost:
            self.motion.clear()
        self.off_p = quat.sub(self.p, p)
        self.off_q = quat.mul_inv(self.q, q)
        if self.off_q[0] < 0.0:
            self.off_q = (-self.off_q[0], -self.off_q[1], -self.off_q[2], -self.off_q[3])
        if self.bridged == 1 and quat.norm(self.off_p) <= 2.0 * dt * self._speed(s):
            self.off_p, self.off_q = ZERO, IDENTITY  # no blend after one bad sample and little motion
        if not lost and quat.norm(self.off_p) < s.jump_m:  # the source repeated a pose of a still device
            self.off_p, self.off_q = ZERO, IDENTITY
        self._blend(s, dt, p)

    def _blend(self, s: GateSettings, dt: float, p: Vec) -> None:
        """Shrink the offset, more slowly while the device moves, so that `blend_speed` limits the output's speed."""
        if self.off_p == ZERO and self.off_q == IDENTITY:
            return
        # The device's speed is unknown right after a loss, so the slowest blend is used.
        own = self._speed(s) if self.motion.held > 3 else math.inf
        left = 1.0 - damping_share(s.blend_halflife_s, dt)
        away = quat.norm(self.off_p)
        if away > 0.0:
            most = max(s.blend_speed - own, 0.2 * s.blend_speed) * dt
            keep = max(left, 1.0 - most / away)
            self.off_p = quat.scale(self.off_p, keep) if away * keep > BLENDED_M else ZERO
        angle = quat.angle_of(self.off_q)
        if angle > 0.0:
            keep = max(left, 1.0 - s.blend_turn_speed * dt / angle)
            self.off_q = quat.share(self.off_q, keep) if angle * keep > BLENDED_RAD else IDENTITY

    def _speed(self, s: GateSettings) -> float:
        return float(quat.norm(self.motion.velocities(s.velocity_window_s)[0]))

    def repeats_pose(self, raw: TrackerFrame) -> bool:
        """Return whether the source still repeats a pose that was refused as frozen."""
        r = self.role
        same = tuple(raw.positions[r].tolist()) == self.raw_p and tuple(raw.rotations[r].tolist()) == self.raw_q
        return self.frozen and same

    def carry(self, moved_p: Vec, moved_q: Quat) -> None:
        if not self.known:
            return

        def place(p: Vec) -> Vec:
            return quat.add(quat.rotate(moved_q, p), moved_p)

        self.p, self.raw_p = place(self.p), place(self.raw_p)
        self.q, self.raw_q = quat.mul(moved_q, self.q), quat.mul(moved_q, self.raw_q)
        self.v, self.w = quat.rotate(moved_q, self.v), quat.rotate(moved_q, self.w)
        self.off_p = quat.rotate(moved_q, self.off_p)
        self.off_q = quat.mul_inv(quat.mul(moved_q, self.off_q), moved_q)
        self.motion.carry(moved_p, moved_q)
        self.other.carry(moved_p, moved_q)

    def write(self, out: TrackerFrame) -> None:
        r = self.role
        out.positions[r], out.rotations[r] = self.p, self.q
        out.velocities[r], out.angular_velocities[r] = self.v, self.w
        out.state[r], out.sampled_ns[r] = self.state, self.sampled_ns
