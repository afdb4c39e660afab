"""Select a height band of the database by the height of the user's head.

A height band is the set of frames whose head height is within a range. A hysteresis prevents frequent changes between
two height bands.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from mm_ros.motion.database import MotionDatabase

PREFIX = "band_"


class BandChoice:
    """Height bands (ranges of head height) of a database. The borders of the bands come from the build options of the
    database, or otherwise from the head heights of its frames."""

    def __init__(self, database: MotionDatabase):
        ratio, tags = np.asarray(database.head_height_ratio), np.asarray(database.tags)
        recorded = {str(b[0]): b for b in database.provenance.get("bands", [])}
        found = []
        for name in database.bands:
            of_band = ratio[(tags & np.uint64(database.tag_bit(PREFIX + name))) != 0]
            if len(of_band):
                low, middle, high = (float(x) for x in np.percentile(of_band, (5, 50, 95)))
                _, first, last = recorded.get(name, (name, low, high))
                found.append((middle, low if first is None else first, high if last is None else last, name))
        found.sort()
        self.names = tuple(f[3] for f in found)  # lowest first
        self.borders = tuple((a[2] + b[1]) / 2 for a, b in pairwise(found))
        self.bits = {name: database.tag_bit(PREFIX + name) for name in self.names}

    def choose(self, ratio: float, current: str, hysteresis: float) -> str:
        """Return the height band for `ratio`, the head height divided by the standing head height.

        The height band differs from `current` only if the ratio has passed a border by more than `hysteresis`. If the
        database has no height bands, `choose` returns "".
        """
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

    def heights(self, name: str) -> tuple[float, float]:
        """Return the lowest and the highest head height of a height band, divided by the standing head height."""
        edges = (-math.inf, *self.borders, math.inf)
        at = self.names.index(name)
        return edges[at], edges[at + 1]

    def _index(self, ratio: float, shift: float) -> int:
        return sum(ratio + shift > border for border in self.borders)
