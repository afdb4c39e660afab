"""Estimate the offset between the clock of a page (`performance.now()`) and CLOCK_MONOTONIC of this machine."""

from __future__ import annotations

from collections import deque
from statistics import median

WINDOW_NS = 10_000_000_000
SLEW = 1e-3  # maximum rate at which the applied clock offset moves to the estimated offset [s/s]
LEADS = 180  # number of samples


class PageClock:
    """Clock of a page. The ping with the shortest round trip of the last 10 s gives the clock offset, with an error of
    at most half of the round trip. The applied clock offset follows the estimated offset slowly, so that the intervals
    between time stamps stay even."""

    def __init__(self) -> None:
        self._pings: deque[tuple[int, int, float]] = deque()  # per ping: arrival time, round trip, clock offset [ns]
        self._used: float | None = None
        self._used_ns = 0
        self._leads: deque[float] = deque(maxlen=LEADS)
        self._lead_ms, self._until_lead = 0.0, 0
        self.last_ns = 0  # the last stamp

    def add(self, sent_ns: int, received_ns: int, page_ms: float) -> None:
        """Use the result of one ping: when this machine sent the ping and received the answer, and the time between
        them on the page's clock [ms]."""
        if received_ns < sent_ns:
            return
        self._pings.append((received_ns, received_ns - sent_ns, (sent_ns + received_ns) / 2 - page_ms * 1e6))
        while received_ns - self._pings[0][0] > WINDOW_NS:
            self._pings.popleft()

    @property
    def known(self) -> bool:
        return len(self._pings) >= 3

    @property
    def trip_ms(self) -> float:
        """Shortest round trip of a message between server and headset page in the last 10 s [ms]."""
        return min((trip for _, trip, _ in self._pings), default=0) * 1e-6

    @property
    def lead_ms(self) -> float:
        """Median time [ms] by which the poses that the headset predicts are ahead of the callback of their frame."""
        return self._lead_ms

    def stamp_ns(self, time_ms: float, lead_ms: float, now_ns: int) -> int:
        """Convert the time of a headset sample from the page's clock to CLOCK_MONOTONIC, not in the future and later
        than the previous stamp."""
        self._leads.append(lead_ms)
        self._until_lead -= 1
        if self._until_lead < 0:
            self._lead_ms, self._until_lead = median(self._leads), min(30, len(self._leads))
        stamp = round((time_ms - self._lead_ms) * 1e6 + self._offset(now_ns))
        self.last_ns = max(self.last_ns + 1000, min(stamp, now_ns))
        return self.last_ns

    def _offset(self, now_ns: int) -> float:
        best = min(self._pings, key=lambda p: p[1])[2]
        # The clock offset jumps if the page's clock stood still while the headset was asleep.
        if self._used is None or abs(best - self._used) > 20e6:
            self._used = best
        most = SLEW * max(0, now_ns - self._used_ns)
        self._used += max(-most, min(most, best - self._used))
        self._used_ns = now_ns
        return self._used
