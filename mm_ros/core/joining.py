"""Joins streams by equal stamp."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

RING_NS = 500_000_000


class Ring(Generic[T]):
    """What came in the last half second, by stamp. A stamp far older than the newest empties it: time has jumped back."""

    def __init__(self, span_ns: int = RING_NS) -> None:
        self._span_ns = span_ns
        self._items: OrderedDict[int, T] = OrderedDict()
        self._newest = -1

    def put(self, stamp_ns: int, item: T) -> None:
        if stamp_ns < self._newest - self._span_ns:
            self._items.clear()
            self._newest = stamp_ns
        self._newest = max(self._newest, stamp_ns)
        self._items[stamp_ns] = item
        while self._items and next(iter(self._items)) < self._newest - self._span_ns:
            self._items.popitem(last=False)

    def take(self, stamp_ns: int) -> T | None:
        return self._items.pop(stamp_ns, None)

    def get(self, stamp_ns: int) -> T | None:
        return self._items.get(stamp_ns)

    def clear(self) -> None:
        self._items.clear()
        self._newest = -1

    def __len__(self) -> int:
        return len(self._items)
