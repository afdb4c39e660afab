"""Height of the ground [m] at a place, `floor(x, y)`; flat by default (Karst 2023)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64


class Floor(Protocol):
    def __call__(self, x: float, y: float) -> float: ...


class FlatFloor:
    def __init__(self, height: float = 0.0) -> None:
        self.height = height

    def __call__(self, x: float, y: float) -> float:
        return self.height


class GridFloor:
    """Bilinear heights on a grid; the border height continues outside. `origin` is the place of heights[0, 0]."""

    def __init__(self, heights: F64, spacing: float, origin: tuple[float, float] = (0.0, 0.0)) -> None:
        heights = np.asarray(heights, np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all() or not spacing > 0:
            raise MmRosError(
                "a grid floor needs finite heights of shape (≥ 2 along x, ≥ 2 along y) and a spacing above 0 m, "
                f"came shape {heights.shape} and spacing {spacing}"
            )
        self.heights, self.spacing, self.origin = heights, float(spacing), origin

    def __call__(self, x: float, y: float) -> float:
        h = self.heights
        u = min(max((x - self.origin[0]) / self.spacing, 0.0), h.shape[0] - 1.0)
        v = min(max((y - self.origin[1]) / self.spacing, 0.0), h.shape[1] - 1.0)
        i, j = min(int(u), h.shape[0] - 2), min(int(v), h.shape[1] - 2)
        a, b = u - i, v - j
        near = h[i, j] * (1 - b) + h[i, j + 1] * b
        far = h[i + 1, j] * (1 - b) + h[i + 1, j + 1] * b
        return float(near * (1 - a) + far * a)
