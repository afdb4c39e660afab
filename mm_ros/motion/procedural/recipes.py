"""Recipes of the clips in the default database: lists of segments of a walk (class `Leg`), each with speed,
turn and posture.

Most recipes turn or step to the left, because the database also contains mirrored clips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.motion.procedural.desired_motion import Leg


@dataclass(frozen=True)
class Recipe:
    name: str
    legs: tuple[Leg, ...]
    tags: tuple[str, ...] = ()
    blend_s: float = 0.0  # blend time between segments [s]; 0: computed from the speeds of the segments


@dataclass(frozen=True)
class Posture:
    name: str
    leg: Leg
    fastest: float  # maximum walking speed in this posture [m/s]
    share: float  # duration of motion in this posture, as a share of the duration of upright motion


# Postures in which the synthetic person stands, walks and turns
UPRIGHT = Posture("upright", Leg(0.0), 1.8, 1.0)
POSTURES = (
    UPRIGHT,
    Posture("bend", Leg(0.0, sink=0.08, lean=0.42), 1.4, 0.4),
    Posture("low", Leg(0.0, sink=0.22, lean=0.62, look_pitch=-0.05), 1.1, 0.4),
    Posture("crouch", Leg(0.0, sink=0.42, lean=0.80, look_pitch=-0.1), 0.8, 0.4),
    Posture("tiptoe", Leg(0.0, tiptoe=0.74, sink=0.004), 1.1, 0.4),
)
TURNS_DEG = (45, 90, 180)


def recipes() -> Iterator[Recipe]:
    yield from _upright()
    for posture in POSTURES[1:]:
        yield from _in_posture(posture)
    yield from _posture_changes()


def _walk(seconds: float, speed: float, degrees: float = 0.0) -> Leg:
    """Return a segment of a walk in a direction: 0° is forward, 90° is left, and 180° is backward."""
    a = np.radians(degrees)
    return Leg(seconds, forward=speed * float(np.cos(a)), left=speed * float(np.sin(a)))


def _turn(degrees: float, rate: float = 1.9) -> Leg:
    angle = float(np.radians(degrees))
    return Leg(abs(angle) / rate, turn=float(np.copysign(rate, angle)))


def _curve(speed: float, radius: float, degrees: float) -> Leg:
    seconds = float(np.radians(abs(degrees))) * radius / speed
    return Leg(seconds, forward=speed, turn=float(np.copysign(speed / radius, degrees)))


def _upright() -> Iterator[Recipe]:
    stand = Leg(0.9)
    yield Recipe("idle", (Leg(14.0),))
    yield Recipe("look around", (Leg(2.0), Leg(1.6, look_yaw=0.8), Leg(1.6, look_yaw=-0.7, look_pitch=0.3), Leg(2.0)))
    for speed in (0.2, 0.45, 0.7, 1.0, 1.3, 1.55, 1.8):
        metres = 2.0 + 2.8 * speed
        yield Recipe(f"walk {speed:g}", (stand, _walk(metres / speed * 0.8, speed), stand))
    for speed in (0.3, 0.6, 0.9, 1.2):
        yield Recipe(f"back {speed:g}", (stand, _walk(4.0, speed, 180), stand))
    for speed in (0.25, 0.5, 0.8):
        yield Recipe(f"side {speed:g}", (stand, _walk(3.6, speed, 90), stand))
    for degrees in (30, 60, 120, 150):
        for speed in (0.45, 0.9):
            yield Recipe(f"diagonal {degrees} {speed:g}", (stand, _walk(3.2, speed, degrees), stand))
    for speed, radius in ((0.5, 0.4), (0.6, 0.8), (1.0, 0.8), (1.0, 1.5), (1.35, 1.5), (1.4, 3.0)):
        yield Recipe(
            f"curve {speed:g} {radius:g}",
            (
                stand,
                _walk(0.9, speed),
                _curve(speed, radius, 170),
                _walk(0.8, speed),
                _curve(speed, radius, -60),
                stand,
            ),
        )
    for degrees in TURNS_DEG:
        for rate in (1.2, 2.4):
            yield Recipe(
                f"turn {degrees} {rate:g}", (stand, _turn(degrees, rate), Leg(1.1), _turn(-degrees, rate), stand)
            )
    for speed in (0.5, 0.9, 1.3):
        there, back = _walk(2.0, speed), _walk(1.8, min(speed, 1.0), 180)
        yield Recipe(f"reverse {speed:g}", (stand, there, back, there, stand))
        yield Recipe(f"sway {speed:g}", (stand, _walk(1.4, 0.6 * speed, 90), _walk(1.4, 0.6 * speed, -90), stand))
        yield Recipe(
            f"about face {speed:g}",
            (
                stand,
                Leg(1.8, room=(speed, 0)),
                Leg(0.9, room=(-speed, 0), turn=float(np.pi / 0.9)),
                Leg(1.5, room=(-speed, 0)),
                stand,
            ),
        )
        yield Recipe(
            f"cut {speed:g}", (stand, _walk(1.6, speed), _walk(1.3, 0.7 * speed, 90), _walk(1.5, speed), stand)
        )
        yield Recipe(
            f"start stop {speed:g}",
            (stand, _walk(1.0, speed), Leg(0.7), _walk(0.7, speed), Leg(0.8), _walk(1.0, 0.6 * speed, 180), stand),
        )
        yield Recipe(
            f"corner {speed:g}",
            (stand, _walk(1.2, speed), Leg(0.7, forward=0.7 * speed, turn=2.2), _walk(1.3, speed), stand),
        )
    for a, b in ((0.3, 1.0), (0.8, 1.6)):
        yield Recipe(f"faster {a:g} {b:g}", (stand, _walk(2.0, a), _walk(2.0, b), _walk(2.0, a), stand))
    for speed in (0.4, 0.8):
        turning = Leg(3.0, room=(speed, 0), turn=1.1)
        yield Recipe(f"spin {speed:g}", (stand, Leg(1.0, room=(speed, 0)), turning, Leg(1.0, room=(speed, 0)), stand))
    for speed in (1.9, 2.5, 3.0, 3.5):
        yield Recipe(f"run {speed:g}", (stand, Leg(0.5, forward=1.3), *_run(3.2, speed), *_slow_down(speed), stand))
    for speed, radius in ((2.3, 2.5), (2.8, 5.0)):
        yield Recipe(
            f"run curve {speed:g}",
            (
                stand,
                Leg(0.5, forward=1.3),
                *_run(0.8, speed),
                *_run(2.4, speed, speed / radius),
                *_slow_down(speed),
                stand,
            ),
        )


def _run(seconds: float, speed: float, turn: float = 0.0) -> tuple[Leg, ...]:
    return (Leg(seconds, forward=speed, turn=turn, run=1.0),)


def _slow_down(speed: float) -> tuple[Leg, ...]:
    return (Leg(0.5, forward=0.4 * speed + 0.9, run=1.0), Leg(0.8, forward=1.2))


def _in_posture(posture: Posture) -> Iterator[Recipe]:
    v, name = posture.fastest, posture.name
    stand = Leg(0.8)
    programme = (
        ("idle", (Leg(5.0),)),
        ("walk slow", (stand, _walk(3.2, 0.4 * v), stand)),
        ("walk", (stand, _walk(3.2, 0.7 * v), stand)),
        ("walk fast", (stand, _walk(3.2, v), stand)),
        ("back", (stand, _walk(3.0, 0.5 * v, 180), stand)),
        ("side", (stand, _walk(3.0, 0.45 * v, 90), stand)),
        ("diagonal", (stand, _walk(2.4, 0.5 * v, 45), stand, _walk(2.4, 0.45 * v, 135), stand)),
        ("curve", (stand, _curve(0.5 * v, 0.8, 150), _walk(0.7, 0.5 * v), stand)),
        ("turn", (stand, _turn(90, 1.4), Leg(1.0), _turn(-180, 1.8), stand)),
        ("reverse", (stand, _walk(1.6, 0.6 * v), _walk(1.6, 0.5 * v, 180), stand)),
    )
    for what, legs in programme:
        yield Recipe(f"{name} {what}", tuple(_held(leg, posture.leg) for leg in legs), (name,))


def _held(leg: Leg, like: Leg) -> Leg:
    return replace(leg, sink=like.sink, lean=like.lean, tiptoe=like.tiptoe, look_pitch=like.look_pitch)


def _posture_changes() -> Iterator[Recipe]:
    for posture in POSTURES[1:]:
        down = _held(Leg(1.6), posture.leg)
        walk = _held(_walk(1.8, 0.6 * posture.fastest), posture.leg)
        up = Leg(1.4)
        yield Recipe(f"into {posture.name}", (up, down, up, _walk(1.2, 0.6), walk, _walk(1.2, 0.7), up))
