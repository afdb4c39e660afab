"""Estimate a user's standing height from the distribution of head heights over time, with an uncertainty.

The user does not have to stand still: the heights of a person who walks, gestures and looks around end in a narrow
cluster at the top, which is upright standing. A person who only sits has such a cluster too. Therefore a cluster below
the heights that only standing adults reach counts as standing only with evidence: the person walks, and the arms are
short enough.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from mm_ros.body.types import F64, HEAD_ROLE, LEFT_HAND_ROLE, TRACKED, TrackerFrame

SAMPLE_S = 1 / 30  # interval of the samples that enter the distribution
BIN, LOWEST_BIN, BINS = 0.01, -2.5, 550  # m; the heights may be below 0, because the origin may be at the head
HALFLIFE_S = 150.0  # half-life of the distribution, so that time on a step or stairs is forgotten.
# A sample counts if the heights within this time differ by at most this distance; jumping and sitting down move more
CALM_S, CALM_M = 0.4, 0.10
HELD_S = 0.8  # minimum time at heights near the top of a cluster
CLUSTER = 0.07  # m: height of the cluster of upright standing and walking
QUANTILE = 0.80  # quantile of the cluster that is the standing height, because walking lowers the head by 2 to 3 %
ENOUGH_S = 2.0  # minimum time in a cluster before it counts as a measurement
TIPTOE = (5, 14)  # tiptoe or a low step raises the head by this many bins (minimum, maximum)
CLIMBED = 15  # stairs, a stool or another raised place lifts the head by at least this many bins.
# Maximum number of bins by which a stool lifts the head; the difference between standing and sitting is larger
STOOL = 32
# A lower cluster is the standing height after this time of walking in it, if its time and its walking are this many
# times those of the upper cluster
WALKED_S, USUALLY = 3.0, 4.0
# Ratios of the times in a lower and the highest cluster above which the lower one is the standing height, or the result
# is uncertain
USUAL, UNUSUAL = 1.5, 0.4
# m; standard deviations that are added when the cluster may be that of tiptoe, or of a raised place
TIPTOE_SIGMA, CLIMBED_SIGMA = 0.05, 0.10

TALLEST_SEAT = 1.36  # m; height of the headset of a tall adult on a chair: a higher headset means standing
WALKED_ENOUGH_S = 1.5  # minimum time of walking which shows that a user with a low head is a standing child
TRAVEL_S, TRAVEL_M = 2.0, 0.7  # s, m; the user walks if the head travels TRAVEL_M within TRAVEL_S.
# m; maximum range of the head's heights that counts as level walking; walking to a chair and sitting down has a larger
# range
LEVEL_WALK_M = 0.12
ARM_SHARE = 0.70  # maximum distance from headset to grip of a standing person, as a share of the headset's height


@dataclass(frozen=True)
class StandingHeight:
    """Height of the headset of the upright user in the source's room [m]."""

    height: float
    sigma: float
    seconds: float  # time spent in the cluster
    walked: float  # time of walking in the cluster, s
    reach: float  # largest distance from headset to grip, m

    def stands(self, floor: float) -> bool:
        """Whether the measured height is that of a standing person rather than of a sitting one."""
        height = self.height - floor
        return height > TALLEST_SEAT or (self.walked >= WALKED_ENOUGH_S and self.reach <= ARM_SHARE * height)


class HeightDistribution:
    """Time-weighted distribution of the height of a level headset."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.time, self.walking = np.zeros(BINS), np.zeros(BINS)
        self.heights = np.zeros(BINS)  # sum of height × time
        self.reach = 0.0
        self.pause()

    def pause(self) -> None:
        """Start again after a gap, but keep the distribution."""
        self._recent: deque[tuple[float, float, float, float, bool]] = deque()
        self._last = -math.inf

    def add(self, t: float, frame: TrackerFrame, level_height: float, level: bool) -> None:
        """`level_height`: height of the headset if the head were level [m]; `level`: whether the head is nearly so."""
        if 0 <= t - self._last < SAMPLE_S * 0.9:
            return
        dt = min(max(t - self._last, 0.0), 2 * SAMPLE_S) if self._last > -math.inf else 0.0
        self._last = t
        x, y = frame.positions[HEAD_ROLE, :2].tolist()
        self._recent.append((t, x, y, level_height, level))
        while t - self._recent[0][0] > TRAVEL_S:
            self._recent.popleft()
        for role in (LEFT_HAND_ROLE, LEFT_HAND_ROLE + 1):
            if frame.state[role] == TRACKED:
                away = float(np.linalg.norm(frame.positions[role] - frame.positions[HEAD_ROLE]))
                self.reach = max(self.reach, min(away, 1.2))
        self._count(t, dt)

    def _count(self, t: float, dt: float) -> None:
        """Count the sample in the middle of the calm window."""
        window = [s for s in self._recent if t - s[0] <= CALM_S]
        middle = window[len(window) // 2]
        heights = [s[3] for s in window]
        if not middle[4] or max(heights) - min(heights) > CALM_M:
            return
        at = int((middle[3] - LOWEST_BIN) / BIN)
        if not 0 <= at < BINS:
            return
        fade = 0.5 ** (dt / HALFLIFE_S)
        self.time *= fade
        self.walking *= fade
        self.heights *= fade
        self.time[at] += dt
        self.heights[at] += dt * middle[3]
        first, last = self._recent[0], self._recent[-1]
        if math.hypot(last[1] - first[1], last[2] - first[2]) > TRAVEL_M and last[0] - first[0] > 0.8 * TRAVEL_S:
            all_heights = [s[3] for s in self._recent]
            if max(all_heights) - min(all_heights) < LEVEL_WALK_M:
                self.walking[at] += dt

    def estimate(self, highest: float = math.inf) -> StandingHeight | None:
        """Return the highest cluster that lasted long enough, unless the user spends far more time in another cluster.

        A cluster slightly above the usual cluster means that the user stood on tiptoe. A cluster far above the cluster
        in which the user walks means that the user stood on a stool or stairs. `highest`: limit of the height [m].
        """
        width = round(CLUSTER / BIN)
        last = int(np.clip((highest - LOWEST_BIN) / BIN, 1, BINS))
        sums = np.convolve(self.time[:last], np.ones(width + 1), "full")[width:]  # time in the cluster above each bin
        walks = np.convolve(self.walking[:last], np.ones(width + 1), "full")[width:]
        lasting = np.flatnonzero(sums >= ENOUGH_S)
        if not len(lasting):
            return None
        low = self._low_of(int(lasting[-1]), last, width)
        doubt = 0.0
        tiptoe, share = _most(sums, low - TIPTOE[1], low - TIPTOE[0])
        if share > USUAL * sums[low]:
            low, doubt = tiptoe, TIPTOE_SIGMA
        elif share > UNUSUAL * sums[low]:
            doubt = TIPTOE_SIGMA
        if _most(sums, low - STOOL, low - CLIMBED)[1] > USUALLY * sums[low]:
            doubt = CLIMBED_SIGMA
        below, walked = _most(walks, 0, low - CLIMBED)
        if walked > WALKED_S:
            if walked > USUALLY * walks[low] and sums[below] > USUALLY * sums[low]:
                low, doubt = below, 0.0
            elif sums[below] > UNUSUAL * sums[low]:
                doubt = CLIMBED_SIGMA
        return self._of_cluster(low, width, doubt)

    def _of_cluster(self, low: int, width: int, doubt: float) -> StandingHeight:
        part = self.time[low : low + width + 1]
        seconds = float(part.sum())
        shares = np.cumsum(part) / seconds
        at = low + int(np.searchsorted(shares, QUANTILE))
        height = float(self.heights[at] / self.time[at])
        spread = (int(np.searchsorted(shares, 0.9)) - int(np.searchsorted(shares, 0.5))) * BIN
        sigma = math.sqrt(0.01**2 + (0.5 * spread) ** 2 + 0.03**2 / max(seconds, 0.1) + doubt**2)
        walked = float(self.walking[low : low + width + 1].sum())
        return StandingHeight(height, sigma, seconds, walked, self.reach)

    def _low_of(self, low: int, last: int, width: int) -> int:
        """Return the lowest position of the cluster at which its top still contains `HELD_S`, because at this position
        the cluster contains the most time.
        """
        top = int(np.flatnonzero(np.cumsum(self.time[low:last][::-1])[::-1] >= HELD_S)[-1]) + low
        return max(top - width, 0)


def _most(values: F64, first: int, stop: int) -> tuple[int, float]:
    """Return index and value of the largest of `values[first:stop]`; (0, 0.0) if the range is empty."""
    part = values[max(first, 0) : max(stop, 0)]
    if not len(part):
        return 0, 0.0
    at = int(part.argmax())
    return max(first, 0) + at, float(part[at])
