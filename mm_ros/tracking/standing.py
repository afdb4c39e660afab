"""Estimates the standing height of a user, and its uncertainty, from the heights of the head over time.

The user does not have to stand still. If a person walks, gestures and looks around, the largest
heights of the head are in a narrow range (a cluster), which is upright standing. The heights of a person who only sits
have a cluster, too, so a low cluster, which a sitting adult could also reach, counts as standing only if the person
walks and has short arms.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from mm_ros.body.types import F64, HEAD_ROLE, LEFT_HAND_ROLE, TRACKED, TrackerFrame

SAMPLE_S = 1 / 30  # time between two samples of the headset's height [s]
# bins of the distribution of head heights: width [m], lowest height [m] (the origin may be at the head), and number
BIN, LOWEST_BIN, BINS = 0.01, -2.5, 550
HALFLIFE_S = 150.0  # half-life with which old heights lose weight, so that time on a step or stairs is forgotten
# A sample of the height counts only if all heights within CALM_S differ by at most CALM_M.
CALM_S, CALM_M = 0.4, 0.10
HELD_S = 0.8  # minimum time that the head must have spent near the top of a cluster of heights
CLUSTER = 0.07  # range of head heights of upright standing and walking (cluster) [m]
# quantile of the heights in the cluster that is the standing height; walking lowers the head by 2 to 3 %
QUANTILE = 0.80
ENOUGH_S = 2.0  # minimum time in a cluster of heights from which the cluster gives a standing height
TIPTOE = (5, 14)  # minimum and maximum number of bins by which tiptoe or a low step raises the head
CLIMBED = 15  # minimum number of bins by which stairs, a stool or another raised place lifts the head
# maximum number of bins by which a stool lifts the head, less than the difference between standing and sitting
STOOL = 32
# A lower cluster of heights is the standing height if the user has walked in the cluster for WALKED_S, and if the time
# and the walking time in it are USUALLY times as long as in the highest cluster.
WALKED_S, USUALLY = 3.0, 4.0
# If the time in a lower cluster divided by the time in the highest cluster exceeds USUAL, the lower cluster is the
# standing height; above UNUSUAL the standing height is uncertain.
USUAL, UNUSUAL = 1.5, 0.4
# standard deviations [m] that are added if the highest cluster of heights may be due to tiptoe, or to a raised place
TIPTOE_SIGMA, CLIMBED_SIGMA = 0.05, 0.10

TALLEST_SEAT = 1.36  # height of the headset of a tall adult on a chair [m]; a higher headset means standing
WALKED_ENOUGH_S = 1.5  # minimum time of walking that shows that a user with a low head is a standing child
TRAVEL_S, TRAVEL_M = 2.0, 0.7  # time [s] and minimum distance [m] that the head of a walking user moves in this time
# maximum range of the head heights in a walk [m], which is exceeded if the user walks to a chair and sits down
LEVEL_WALK_M = 0.12
ARM_SHARE = 0.70  # maximum distance from headset to grip of a standing person, as a share of the headset height


@dataclass(frozen=True)
class StandingHeight:
    """Estimated height of the headset of the upright user in the room of the source [m]."""

    height: float
    sigma: float
    seconds: float  # time that the head spent in the range of upright heights [s]
    walked: float  # time of walking with the head in the range of upright heights [s]
    reach: float  # largest distance from the headset to a controller's grip [m]

    def stands(self, floor: float) -> bool:
        """Return true if the user stood at the estimated height, and false if the user may have sat."""
        height = self.height - floor
        return height > TALLEST_SEAT or (self.walked >= WALKED_ENOUGH_S and self.reach <= ARM_SHARE * height)


class HeightDistribution:
    """Distribution of the heights of the headset over time, as if the head were always level."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.time, self.walking = np.zeros(BINS), np.zeros(BINS)
        self.heights = np.zeros(BINS)  # for each bin of heights: sum of height × time [m s]
        self.reach = 0.0
        self.pause()

    def pause(self) -> None:
        """Clear the last samples of the height after a gap, but keep the distribution."""
        self._recent: deque[tuple[float, float, float, float, bool]] = deque()
        self._last = -math.inf

    def add(self, t: float, frame: TrackerFrame, level_height: float, level: bool) -> None:
        """Add a sample. `level_height` is the height that the headset would have if the head were level [m]. `level` is
        true if the headset is nearly level.
        """
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
        """Add the height in the middle of the last `CALM_S` [s] to the distribution if the heights are nearly equal."""
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
        """Return the highest cluster of heights that lasted long enough, or a lower one in which the user spent far
        more time.

        If the highest cluster of heights is slightly above the usual cluster, the user stood on tiptoe. If the highest
        cluster of heights is far above the cluster in which the user walks, the user stood on a stool or stairs.
        Headset heights above `highest` [m] are ignored.
        """
        width = round(CLUSTER / BIN)
        last = int(np.clip((highest - LOWEST_BIN) / BIN, 1, BINS))
        sums = np.convolve(self.time[:last], np.ones(width + 1), "full")[width:]  # time per cluster, by lowest bin
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
        top = int(np.flatnonzero(np.cumsum(self.time[low:last][::-1])[::-1] >= HELD_S)[-1]) + low
        return max(top - width, 0)


def _most(values: F64, first: int, stop: int) -> tuple[int, float]:
    part = values[max(first, 0) : max(stop, 0)]
    if not len(part):
        return 0, 0.0
    at = int(part.argmax())
    return max(first, 0) + at, float(part[at])
