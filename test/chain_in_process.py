"""ROS nodes in the test's process, whose publishers call the callbacks of other nodes directly, without DDS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message
from tf2_msgs.msg import TFMessage

from mm_ros.ros import graph
from mm_ros.ros.loop import Ticker
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.wire import KINDS

FRAME_NS = 11_111_111


class _Wire:
    def __init__(self, chain: Chain, topic: str) -> None:
        self._chain, self._topic = chain, topic

    def publish(self, value: Any) -> None:
        self._chain.send(self._topic, KINDS[self._topic].to_ros(value) if self._topic in KINDS else value)

    def get_subscription_count(self) -> int:
        return 1


class Chain:
    """Nodes that exchange messages; `corrupt` is (topic, change), and changes only the next message of the topic."""

    def __init__(self, monkeypatch: Any, *nodes: str, **overrides: list[Any]) -> None:
        self.now_ns = 1_700_000_000_000_000_000
        self.corrupt: tuple[str, Callable[[Any], None]] | None = None
        self.last: dict[str, Any] = {}
        self.tf: list[TFMessage] = []
        self._waiting: deque[tuple[str, Any]] = deque()
        self._heard: dict[str, list[Callable[[Any], None]]] = {}
        monkeypatch.setattr(AvatarNode, "publisher", lambda _, topic: _Wire(self, topic))
        monkeypatch.setattr(AvatarNode, "get_clock", lambda _: SimpleNamespace(now=self._now))
        monkeypatch.setattr(AvatarNode, "is_simulated", lambda _: True)
        monkeypatch.setattr(Ticker, "_begin", lambda _: None)
        self.nodes = {}
        for name in nodes:
            node = graph.node(name).node_class()(namespace="chain", parameter_overrides=overrides.get(name, []))
            self.nodes[name] = node
            for inlet in node.inlets:
                self._heard.setdefault(inlet.name.removeprefix("/chain/"), []).append(inlet.receive)
        self.pump()

    def _now(self) -> Any:
        sec, nanosec = divmod(self.now_ns, 1_000_000_000)
        return SimpleNamespace(nanoseconds=self.now_ns, to_msg=lambda: Time(sec=sec, nanosec=nanosec))

    def send(self, topic: str, message: Any) -> None:
        if self.corrupt and self.corrupt[0] == topic:
            self.corrupt[1](message)
            self.corrupt = None
        else:
            self.last[topic] = message
        if topic == "/tf":
            self.tf.append(deserialize_message(message, TFMessage) if isinstance(message, bytes) else message)
        self._waiting.append((topic, message))

    def pump(self) -> None:
        while self._waiting:
            topic, message = self._waiting.popleft()
            for heard in self._heard.get(topic, []):
                heard(message)

    def refused(self) -> int:
        return sum(node.health.refused for node in self.nodes.values())

    def close(self) -> None:
        for node in self.nodes.values():
            if hasattr(node, "close"):
                node.close()
            node.destroy_node()


# ---- Messages with an absurd number in one field

FLOATS = (np.nan, np.inf, -np.inf, 1e308, 1e30, -1e9, 5e3)
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
Change = Callable[[Any], None]


def changes(message: Any) -> list[tuple[str, Change]]:
    """Return a name and a change for each numeric field (one random number of an array) and each absurd value."""
    rng = np.random.default_rng(0)
    return list(_changes(message, (), rng))


def _changes(message: Any, path: tuple[Any, ...], rng: Any) -> Any:
    kinds = message.get_fields_and_field_types()
    if set(kinds) == {"x", "y", "z", "w"}:
        yield _named(path, "zero quaternion"), _zeroed(path)
    for name, kind in kinds.items():
        value, here = getattr(message, name), (*path, name)
        if hasattr(value, "get_fields_and_field_types"):
            yield from _changes(value, here, rng)
        elif isinstance(value, (str, bool)):
            continue
        elif isinstance(value, list) and value and hasattr(value[0], "get_fields_and_field_types"):
            for i, inner in enumerate(value):
                yield from _changes(inner, (*here, i), rng)
        elif hasattr(value, "__len__"):
            if len(value) and not isinstance(value[0], (str, bool, np.bool_)):
                yield from _numbers((*here, int(rng.integers(len(value)))), kind)
                if name in ("rotations", "rest_rotations"):
                    yield _named(here, "zero quaternion"), _zeroed_rows(here)
        else:
            yield from _numbers(here, kind)


def _numbers(path: tuple[Any, ...], kind: str) -> Any:
    kind = kind.replace("sequence<", "").split("[")[0].rstrip(">")
    for value in absurd(kind):
        yield _named(path, value), _set(path, value)


def absurd(kind: str) -> list[Any]:
    if kind in ("double", "float"):
        largest = 1e308 if kind == "double" else 3e38
        return [min(max(v, -largest), largest) if np.isfinite(v) else v for v in FLOATS]
    if kind.startswith("uint"):
        return [2 ** WIDTHS[kind[1:]] - 1]
    if kind.startswith("int"):
        most = 2 ** (WIDTHS[kind] - 1)
        return [-most, most - 1, -1]
    return []


def _named(path: tuple[Any, ...], value: Any) -> str:
    return ".".join(map(str, path)) + f" = {value}"


def _holder(message: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        message = message[part] if isinstance(part, int) else getattr(message, part)
    return message


def _set(path: tuple[Any, ...], value: Any) -> Change:
    def change(message: Any) -> None:
        holder = _holder(message, path[:-1])
        if isinstance(path[-1], int):
            holder[path[-1]] = value
        else:
            setattr(holder, path[-1], value)

    return change


def _zeroed(path: tuple[Any, ...]) -> Change:
    def change(message: Any) -> None:
        q = _holder(message, path)
        q.x = q.y = q.z = q.w = 0.0

    return change


def _zeroed_rows(path: tuple[Any, ...]) -> Change:
    def change(message: Any) -> None:
        rotations = _holder(message, path)
        for i in range(4):
            rotations[4 + i] = 0.0

    return change
