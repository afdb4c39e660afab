"""Compare every field of a message with the data of the stage, so that a field that no code fills makes a test fail."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mm_ros.body.skeleton import LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES
from mm_ros.body.types import ROLES, TrackerFrame
from mm_ros.ros.conversions import WORLD, pose_from_ros, stamp_from_ros

Values = Mapping[str, Callable[[Any], Any]]
# Topics whose fields are compared in test_tracker_bridge.py and in test_graph_nodes.py.
OF_THE_BRIDGE = ("trackers", "calibration", "truth", "truth_skeleton", "landmarks")
OF_THE_CHAIN = ("body_orientation", "trajectory", "matched_pose", "match", "skeleton", "feature_layout", "pose")
ONLY_FILLED = None  # marks a field whose value is not compared, such as a measured time


def plain(value: Any) -> Any:
    """Convert the value of a message field to numbers and strings in the order of the data types in `mm_ros.body`."""
    kind = type(value).__name__
    if kind == "Header":
        return (stamp_from_ros(value.stamp), value.frame_id)
    if kind == "Time":
        return stamp_from_ros(value)
    if kind == "Pose":
        return pose_from_ros(value)
    if kind == "Twist":
        return np.array([getattr(v, axis) for v in (value.linear, value.angular) for axis in "xyz"])
    if isinstance(value, array):
        return np.array(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def same(got: Any, expected: Any) -> bool:
    if isinstance(got, np.ndarray):
        return np.array_equal(got, np.asarray(expected).astype(got.dtype).ravel(), equal_nan=True)
    if isinstance(got, list):
        expected = list(expected)
        return len(got) == len(expected) and all(same(a, b) for a, b in zip(got, expected, strict=True))
    numbers = isinstance(got, float) and isinstance(expected, (float, np.floating))
    return bool(got == expected or (numbers and np.isnan(got) and np.isnan(expected)))


def check_fields(
    pairs: Sequence[tuple[Any, Any]], values: Values | None = None, always_empty: Collection[str] = ()
) -> None:
    """Compare messages with the objects of mm_ros from which they were made (`pairs`; an object may be None). A field
    is compared with the attribute of the same name, or with the result of its function in `values` unless this is None.
    In at least one message, each field must differ from an empty message, except the fields in `always_empty`."""
    assert pairs
    first, values = pairs[0][0], values or {}
    for name in first.get_fields_and_field_types():
        where = f"{type(first).__name__}.{name}"
        read = values.get(name, lambda core, name=name, where=where: _attribute(core, name, where))
        for message, core in pairs:
            expected, got = ONLY_FILLED if core is None else read(core), plain(getattr(message, name))
            assert expected is ONLY_FILLED or same(got, expected), (where, got, expected)
        empty = plain(getattr(type(first)(), name))
        unfilled = all(same(plain(getattr(m, name)), empty) for m, _ in pairs)
        assert unfilled == (name in always_empty), f"{where} is {'never' if unfilled else 'now'} filled"


def _attribute(core: Any, name: str, where: str) -> Any:
    if name == "header" and hasattr(core, "stamp_ns"):
        return (core.stamp_ns, WORLD)
    assert hasattr(core, name), f"{where}: {type(core).__name__} has no '{name}'; say what it is made of"
    return getattr(core, name)


def w_last(q: Any) -> Any:
    return np.roll(q, -1, axis=-1)


FEET: Values = {"feet": lambda p: np.zeros(0) if p.feet is None else p.feet.flat()}
POSE: Values = {
    **FEET,
    "root": lambda p: [*p.root[:3], *w_last(p.root[3:])],
    "root_velocity": lambda p: np.concatenate([p.velocities[0], p.angular_velocities[0]]),
    "positions": lambda p: p.positions[1:],
    "rotations": lambda p: w_last(p.rotations[1:]),
    "velocities": lambda p: p.velocities[1:],
    "angular_velocities": lambda p: p.angular_velocities[1:],
}
SKELETON: Values = {
    "header": lambda _: ONLY_FILLED,
    "joints": lambda s: s.names,
    "height": lambda s: np.float32(s.head_height),
    "feet": lambda _: [LEFT_FOOT, RIGHT_FOOT],
    "toes": lambda _: [LEFT_TOES, RIGHT_TOES],
}
LAYOUT: Values = {
    "header": lambda _: ONLY_FILLED,
    "hash": lambda layout: int(layout.hash, 16),
    "features": lambda layout: [f.name for f in layout.features],
    "weights": lambda layout: [f.weight for f in layout.features],
}
TRACKERS: Values = {"trackers": lambda _: ONLY_FILLED}  # the tests compare each tracker with a `OneTracker`
CALIBRATION: Values = {
    "header": lambda _: ONLY_FILLED,
    "roles": lambda _: ROLES[:3],
    "offsets": lambda c: [c.headset_in_head, c.left_grip_in_hand, c.right_grip_in_hand],
}
LANDMARKS: Values = {"header": lambda m: (m.stamp_ns, "camera")}


class OneTracker:
    """A row of a TrackerFrame."""

    def __init__(self, frame: TrackerFrame, role: str) -> None:
        r = ROLES.index(role)
        self.role, self.state, self.sampled = role, frame.state[r], frame.sampled_ns[r]
        self.pose = np.concatenate([frame.positions[r], frame.rotations[r]])
        self.twist = np.concatenate([frame.velocities[r], frame.angular_velocities[r]])
