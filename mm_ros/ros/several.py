"""Names, seeds and room positions of several synthetic users side by side."""

from __future__ import annotations

from dataclasses import dataclass

from mm_ros.base.errors import MmRosError

ROOM_M = 5.0  # distance between the rooms of two users
MOST = 64


@dataclass(frozen=True)
class User:
    avatar: str
    seed: int
    place: str  # "x,y" of the room in the world [m]


def side_by_side(name: str, count: int, seed: int = 0) -> list[User]:
    if not 1 <= count <= MOST:
        raise MmRosError(f"avatars: expected 1 to {MOST}, came {count}")
    return [User(f"{name}{i + 1}", seed + i, f"0.0,{ROOM_M * i}") for i in range(count)]
