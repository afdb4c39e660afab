"""Decision about the stamp and epoch of each sample (advance, drop, reset, carry or hold), the same in every stage."""

from __future__ import annotations

from typing import NamedTuple

from mm_ros.body.types import F64, IDENTITY_POSE

ADVANCE = "advance"  # the next sample: integrate over dt
DROP = "drop"  # a duplicate or late sample: ignore it
RESET = "reset"  # first sample, new epoch or a jump back in time: reset all state
CARRY = "carry"  # re-centred: move all state by new_from_old, then continue
HOLD = "hold"  # first sample after a gap: keep the state, do not integrate over the gap, blend

# a sample that is older than the last one by at most this is late; a still older sample means a loop or a seek
LATE_S = 0.1
GAP_S = 0.5  # a longer time between two samples is a gap
_IDENTITY = list(IDENTITY_POSE)


class Judgement(NamedTuple):
    verdict: str
    dt: float  # s since the last accepted sample; 0 unless ADVANCE or CARRY


class Timeline:
    """State: the last accepted stamp and epoch."""

    def __init__(self, late_s: float = LATE_S, gap_s: float = GAP_S) -> None:
        self.late_s, self.gap_s = late_s, gap_s
        self.reset()

    def reset(self) -> None:
        self.stamp_ns: int | None = None
        self.epoch = 0

    def judge(self, stamp_ns: int, epoch: int = 0, new_from_old: F64 | None = None) -> Judgement:
        """Judge one sample. A transform within one epoch (stick locomotion) is an ADVANCE: the caller applies it."""
        if self.stamp_ns is None:
            return self._accept(RESET, 0.0, stamp_ns, epoch)
        dt = (stamp_ns - self.stamp_ns) * 1e-9
        late = -self.late_s <= dt <= 0
        if epoch != self.epoch:
            # A late sample of the previous epoch. With a newer epoch, an equal or older stamp is valid: sources
            # restart and loop.
            if late and epoch < self.epoch:
                return Judgement(DROP, 0.0)
            if new_from_old is not None and not is_identity(new_from_old):
                return self._accept(CARRY, dt if 0 < dt <= self.gap_s else 0.0, stamp_ns, epoch)
            return self._accept(RESET, 0.0, stamp_ns, epoch)
        if late:
            return Judgement(DROP, 0.0)
        if dt < 0:
            return self._accept(RESET, 0.0, stamp_ns, epoch)
        if dt > self.gap_s:
            return self._accept(HOLD, 0.0, stamp_ns, epoch)
        return self._accept(ADVANCE, dt, stamp_ns, epoch)

    def _accept(self, verdict: str, dt: float, stamp_ns: int, epoch: int) -> Judgement:
        self.stamp_ns, self.epoch = stamp_ns, epoch
        return Judgement(verdict, dt)


def is_identity(pose: F64) -> bool:
    """Whether a pose (x, y, z, qw, qx, qy, qz) is the identity to a micrometre and a microradian."""
    numbers = pose.tolist()
    if numbers == _IDENTITY:
        return True
    x, y, z, _, qx, qy, qz = numbers
    if abs(qx) > 5e-7 or abs(qy) > 5e-7 or abs(qz) > 5e-7:  # half of the rotation's angle
        return False
    return bool(abs(x) < 1e-6 and abs(y) < 1e-6 and abs(z) < 1e-6)
