"""Messages from templates: equal to those of the ordinary conversion for any numbers, and refused alike."""

import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import J, default_skeleton
from mm_ros.body.types import (
    FEET_NUMBERS,
    AvatarPose,
    BodyOrientation,
    R,
    TrackerFrame,
    Trajectory,
    feet_from_flat,
    rest_pose,
)
from mm_ros.ros import graph
from mm_ros.ros.cdr import PADDED, Template, stamp_of
from mm_ros.ros.qos import message_class
from mm_ros.ros.tf import PoseTf, TrackerTf
from mm_ros.ros.wire import KINDS, SHAPES, Wire

SEEDS = st.integers(0, 2**32 - 1)
POSES = ("pose", "matched_pose", "truth")


def unit(rng, *shape):
    q = rng.normal(size=(*shape, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def feet(rng):
    """Estimated feet in float32, or None."""
    return feet_from_flat(rng.uniform(0, 1, FEET_NUMBERS if rng.integers(2) else 0).astype(np.float32))


def made(topic, seed):
    """A plausible value of a topic, with random numbers in each field."""
    rng = np.random.default_rng(seed)
    stamp, epoch = int(rng.integers(2**60)), int(rng.integers(2**32))
    moved = np.concatenate([rng.normal(size=3), unit(rng)])
    if topic == "trackers":
        state, sampled = rng.integers(0, 3, R).astype(np.uint8), rng.integers(0, 3, R) * stamp // 3
        rows = [rng.normal(size=(R, 3)) for _ in range(3)]
        return TrackerFrame(stamp, epoch, rows[0], unit(rng, R), rows[1], rows[2], state, sampled, moved)
    if topic == "body_orientation":
        source = str(rng.choice(["network", "hmd_forward", "ünicode", ""]))
        return BodyOrientation(stamp, epoch, *rng.uniform(0, 3, 3).tolist(), source)
    if topic == "trajectory":
        n = int(rng.integers(1, 8))
        ahead = [rng.uniform(-1, 1, (n, 2)).astype(np.float32) for _ in range(2)]
        times = np.sort(rng.uniform(0, 3, n)).astype(np.float32)
        return Trajectory(
            stamp, epoch, str(rng.choice(["vr", "joystick"])), rng.normal(size=2), rng.normal(size=2),
            *rng.uniform(0, 3, 3).tolist(), times, *ahead, bool(rng.integers(2)), moved, feet(rng),
        )  # fmt: skip
    positions, velocities, angular = (rng.normal(size=(J, 3)).astype(np.float32) for _ in range(3))
    flags = rng.integers(0, 2, 5).astype(bool)
    return AvatarPose(
        stamp, epoch, int(rng.integers(2**63)), moved, positions, unit(rng, J).astype(np.float32), velocities, angular,
        flags[:2], flags[2:4], int(rng.integers(2**32)), int(rng.integers(2**32)), bool(flags[4]),
        str(rng.choice(["search", "learned"])), feet(rng),
    )  # fmt: skip


def assert_equal(one, other):
    assert type(one) is type(other)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if is_dataclass(a):
            assert_equal(a, b)
            continue
        assert type(a) is type(b), field.name
        np.testing.assert_array_equal(a, b, field.name)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None), field.name


@pytest.mark.parametrize("topic", KINDS)
@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(SEEDS, min_size=1, max_size=4))
def test_bytes_of_a_template_are_the_ordinary_message_and_read_alike(topic, seeds):
    kind, wire, reader = KINDS[topic], Wire(topic, "odom"), Wire(topic, "odom")
    for seed in seeds:
        value = made(topic, seed)
        ordinary = wire.message(value)
        raw = wire.serialized(value)
        assert deserialize_message(raw, type(ordinary)) == ordinary
        assert stamp_of(raw) == value.stamp_ns
        expected = kind.from_ros(ordinary)
        assert_equal(reader.value(raw), expected)
        assert_equal(wire.handed(value), expected)


def numbered(msg, rng, path=""):
    """Fill all numbers of a message by chance; yield path and value of each field of numbers."""
    for name, kind in msg.get_fields_and_field_types().items():
        value, here = getattr(msg, name), f"{path}{name}"
        if hasattr(value, "get_fields_and_field_types"):
            yield from numbered(value, rng, f"{here}.")
        elif isinstance(value, (bool, int, float)):
            setattr(msg, name, type(value)(rng.integers(0, 2 if isinstance(value, bool) else 100)))
            yield here, getattr(msg, name)
        elif kind.startswith("sequence<") and "/" in kind:
            for i, item in enumerate(value):
                yield from numbered(item, rng, f"{here}.{i}.")
        elif "string" not in kind:
            bounded = "boolean" in kind
            count = len(value) if kind.endswith("]") else int(rng.integers(0, 9))
            numbers = rng.integers(0, 2 if bounded else 100, count)
            setattr(msg, name, [bool(n) for n in numbers] if bounded else numbers.tolist())
            yield here, getattr(msg, name)


@pytest.mark.parametrize("topic", [t for t in graph.TOPICS if graph.TOPICS[t].qos.reliable])
def test_the_walk_finds_every_number_of_every_message_type(topic):
    """A changed .msg file must not shift the fields of a template."""
    rng = np.random.default_rng(1)
    msg = message_class(graph.TOPICS[topic].type)()
    if hasattr(msg, "trackers"):
        msg.trackers = [message_class("mm_ros/msg/Tracker")(role=role) for role in ("head", "ünicode", "")]
    if hasattr(msg, "tags"):
        msg.tags = ["walk", "é"]
    numbers = dict(numbered(msg, rng))
    template = Template(msg)
    for path, value in numbers.items():
        np.testing.assert_array_equal(template.view(path), np.atleast_1d(value), path)


@pytest.mark.parametrize("topic", KINDS)
def test_a_message_in_another_serialization_takes_the_ordinary_conversion(topic):
    wire, value = Wire(topic, "map"), made(topic, 3)
    raw = wire.serialized(value)
    assert_equal(wire.value(raw), KINDS[topic].from_ros(wire.message(value)))
    other = replace(made(topic, 4), stamp_ns=7)
    longer = wire.message(other)
    longer.header.frame_id = "a longer frame than before"
    assert_equal(wire.value(serialize_message(longer)), KINDS[topic].from_ros(longer))


@pytest.mark.parametrize("spare", range(1, PADDED))
@pytest.mark.parametrize("topic", KINDS)
def test_a_message_that_the_middleware_has_filled_up_is_read_by_the_template(topic, spare, monkeypatch):
    wire, value = Wire(topic, "map"), made(topic, 3)
    expected = KINDS[topic].from_ros(wire.message(value))
    wire.value(wire.serialized(value))
    monkeypatch.delattr("mm_ros.ros.wire.deserialized")
    assert_equal(wire.value(wire.serialized(value) + bytes(spare)), expected)


@pytest.mark.parametrize("topic", KINDS)
def test_an_implausible_number_is_refused_in_both_ways(topic):
    wire, value = Wire(topic, "map"), made(topic, 5)
    wire.value(wire.serialized(value))
    name = {"trackers": "new_from_old", "body_orientation": "yaw", "trajectory": "yaw"}.get(topic, "root")
    bad = replace(value, **{name: np.full(7, math.nan) if name in ("root", "new_from_old") else math.nan})
    raw = wire.serialized(bad)
    for given_message in (raw, deserialize_message(raw, type(wire.message(value)))):
        with pytest.raises(MmRosError, match="NaN"):
            wire.value(given_message)


def test_endless_strings_from_another_program_do_not_fill_the_memory():
    wire = Wire("body_orientation", "map")
    for i in range(4 * SHAPES):
        value = replace(made("body_orientation", 0), source=f"source {i}")
        wire.value(wire.serialized(value))
    assert len(wire._read) <= SHAPES and len(wire._written) <= SHAPES


@pytest.mark.parametrize("topic", [t for t in KINDS if t != "body_orientation"])
def test_what_is_handed_on_or_read_cannot_be_written_and_is_a_copy(topic):
    wire, value = Wire(topic, "map"), made(topic, 6)
    before = {f.name: np.copy(getattr(value, f.name)) for f in fields(value)}
    for got in (wire.handed(value), wire.value(wire.serialized(value))):
        arrays = [a for a in vars(got).values() if isinstance(a, np.ndarray)]
        assert arrays
        if getattr(got, "feet", None) is not None:
            arrays.append(got.feet.numbers)
            assert not np.shares_memory(got.feet.numbers, value.feet.numbers)
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            assert not any(np.shares_memory(array, own) for own in vars(value).values() if isinstance(own, np.ndarray))
    for name, kept in before.items():
        np.testing.assert_array_equal(getattr(value, name), kept)


def test_tf_bytes_are_the_ordinary_messages():
    for seed in range(20):
        frame, pose = made("trackers", seed), rest_pose(default_skeleton(), 1234567890123456789)
        lost = TrackerFrame(frame.stamp_ns)
        for tf, value in (
            (TrackerTf("a"), frame), (TrackerTf("a"), lost), (PoseTf("a"), pose), (PoseTf("avatar", joints=1), pose),
        ):  # fmt: skip
            raw = tf.serialized(value)
            expected = tf.message(value)
            assert deserialize_message(raw, type(expected)) == expected


@pytest.mark.parametrize("topic", KINDS)
def test_every_number_of_the_message_is_written_by_its_template(topic):
    """A field that is new in a .msg file must reach the template, too: here the numbers of two values differ."""
    wire = Wire(topic, "map")
    for seed in range(40):
        one, other = made(topic, seed), made(topic, seed + 1000)
        raw = [wire.serialized(one), wire.serialized(other), wire.serialized(one)]
        expected = wire.message(one)
        assert deserialize_message(raw[0], type(expected)) == deserialize_message(raw[2], type(expected)) == expected
