"""Height of the ground [m] as a function of the position (x, y) in the room; flat by default (Karst 2023).
"""

from __future__ import annotations

from typing import Protocol


class Floor(Protocol):
    def __call__(self, x: float, y: float) -> float: ...


class FlatFloor:
    def __init__(self, height: float = 0.0) -> None:
        self.height = height

    def __call__(self, x: float, y: float) -> float:
        return self.height
