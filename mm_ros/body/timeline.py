"""Decide what a stage does with a sample, by its time stamp and its epoch (count of starts and loops of the source)."""

from __future__ import annotations

from typing import NamedTuple

from mm_ros.body.types import F64, IDENTITY_POSE

ADVANCE = "advance"  # If a sample follows the last one, the stage integrates over the time step between both.
DROP = "drop"  # If a sample is a duplicate or is late, the stage ignores the sample.
RESET = "reset"  # At the first sample, in a new epoch or after a jump back in time, the stage resets all state.
CARRY = "carry"  # After the user has re-centred the play space, the stage transforms all state by `new_from_old`.
HOLD = "hold"  # At the first sample after a gap, the stage keeps its state and does not integrate over the gap.

# A sample that is older than the last sample by at most this time [s] is late; an older one shows that the source has
# looped or jumped.
LATE_S = 0.1
GAP_S = 0.5  # minimum time between two samples that counts as a gap [s]
_IDENTITY = list(IDENTITY_POSE)


class Judgement(NamedTuple):
    verdict: str
    dt: float  # time since the last accepted sample [s]; 0 for all verdicts except ADVANCE and CARRY


class Timeline:
    """Decides what one stage does with each sample, from the stamp and epoch of the last accepted sample."""

    def __init__(self, late_s: float = LATE_S, gap_s: float = GAP_S) -> None:
        self.late_s, self.gap_s = late_s, gap_s
        self.reset()

    def reset(self) -> None:
        self.stamp_ns: int | None = None
        self.epoch = 0

    def judge(self, stamp_ns: int, epoch: int = 0, new_from_old: F64 | None = None) -> Judgement:
        """Return the verdict on a sample (ADVANCE, DROP, RESET, CARRY or HOLD). A transform of the play space within an
        epoch (travel by stick) gives ADVANCE, and the caller applies the transform."""
        if self.stamp_ns is None:
            return self._accept(RESET, 0.0, stamp_ns, epoch)
        dt = (stamp_ns - self.stamp_ns) * 1e-9
        late = -self.late_s <= dt <= 0
        if epoch != self.epoch:
            # A late sample of the previous epoch is dropped. A sample of a newer epoch may have an equal or older
            # stamp, because sources restart and loop.
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
    """Whether a pose (x, y, z, qw, qx, qy, qz) is the identity, with a tolerance of a micrometre and a microradian."""
    numbers = pose.tolist()
    if numbers == _IDENTITY:
        return True
    x, y, z, _, qx, qy, qz = numbers
    if abs(qx) > 5e-7 or abs(qy) > 5e-7 or abs(qz) > 5e-7:  # for small rotations, qx is half the angle
        return False
    return bool(abs(x) < 1e-6 and abs(y) < 1e-6 and abs(z) < 1e-6)
