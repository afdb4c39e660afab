"""Find the messages of two streams that have equal time stamps."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

RING_NS = 500_000_000


class Ring(Generic[T]):
    """Buffer of the messages (items) of the last half second. A new item whose stamp is over half a second older than
    the newest stamp shows that time has jumped back, so the buffer is cleared."""

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

    def older_than(self, stamp_ns: int) -> list[T]:
        """Remove the items whose time stamp is before `stamp_ns` from the buffer; return the items, oldest first."""
        stamps = sorted(s for s in self._items if s < stamp_ns)
        return [self._items.pop(s) for s in stamps]

    def clear(self) -> None:
        self._items.clear()
        self._newest = -1

    def __len__(self) -> int:
        return len(self._items)


class Pairs(Generic[T]):
    """Finds pairs of messages (items) of two streams with equal time stamps. `unpaired` counts removed items without a
    partner. `put_first` and `put_second` return the pair that the new item completes, or None."""

    def __init__(self) -> None:
        self._first: Ring[T] = Ring()
        self._second: Ring[object] = Ring()
        self.unpaired = 0

    def put_first(self, stamp_ns: int, item: T) -> tuple[T, object] | None:
        other = self._second.take(stamp_ns)
        if other is not None:
            return item, other
        self._first.put(stamp_ns, item)
        return None

    def put_second(self, stamp_ns: int, item: object) -> tuple[T, object] | None:
        other = self._first.take(stamp_ns)
        if other is not None:
            return other, item
        self._second.put(stamp_ns, item)
        return None

    def overdue(self, now_ns: int, after_ns: int = 0) -> list[T]:
        """Remove and return the unpaired items of the first stream that are older than `now_ns` − `after_ns`, oldest
        first. If `now_ns` is the stamp of an item of the second stream and `after_ns` is 0, the returned items will
        remain unpaired, because each stream arrives in order."""
        late = self._first.older_than(now_ns - after_ns)
        self.unpaired += len(late)
        return late

    def clear(self) -> None:
        self._first.clear()
        self._second.clear()
