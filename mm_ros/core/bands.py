"""Height bands: which part of the database suits the height of the user's head."""

from __future__ import annotations

import numpy as np

from mm_ros.core.database import MotionDatabase

PREFIX = "band_"
HIGHER_FIRST = ("tip_toe", "upright", "slight_bend", "medium_bend", "crouch")


class Bands:
    """Chooses by head height ratio, with hysteresis; borders are found from the database's own frames."""

    def __init__(self, database: MotionDatabase):
        ratio = np.asarray(database.head_height_ratio)
        tags = np.asarray(database.tags)
        found = []
        for name in database.bands:
            of_band = ratio[(tags & np.uint64(database.tag_bit(PREFIX + name))) != 0]
            if len(of_band):
                low, middle, high = np.percentile(of_band, (5, 50, 95))
                found.append((float(middle), float(low), float(high), name))
        found.sort()
        self.names = tuple(f[3] for f in found)  # lowest first
        self.borders = tuple((a[2] + b[1]) / 2 for a, b in zip(found, found[1:], strict=False))
        self.bits = {name: database.tag_bit(PREFIX + name) for name in self.names}

    def choose(self, ratio: float, current: str, hysteresis: float) -> str:
        """Band of a ratio; "" when the database has none. A change needs the ratio beyond a border by `hysteresis`."""
        if not self.names:
            return ""
        here = self._index(ratio, 0.0)
        if current not in self.bits:
            return self.names[here]
        at = self.names.index(current)
        if here > at:
            here = max(at, self._index(ratio, -hysteresis))
        elif here < at:
            here = min(at, self._index(ratio, hysteresis))
        return self.names[here]

    def _index(self, ratio: float, shift: float) -> int:
        return sum(ratio + shift > border for border in self.borders)
