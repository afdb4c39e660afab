"""Synthetic full-body motion that is computed from planned footsteps (see docs/procedural-motion.md)."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.motion.procedural.body import Manner, make_motion, with_tags
from mm_ros.motion.procedural.desired_motion import Leg, make_desired_motion
from mm_ros.motion.procedural.recipes import Recipe, recipes
from mm_ros.motion.procedural.script import Script
from mm_ros.motion.procedural.tagging import tags_of

__all__ = ["make_clips"]

WANDERS, WANDER_S = 4, 40.0  # number and duration [s] of the clips with random walks


def make_clips(seed: int = 0, progress: Callable[[float], None] | None = None) -> list[Clip]:
    """Make clips of all kinds of motion at 60 Hz on the default skeleton; equal seeds give equal clips.

    Most turns and sideways steps are to the left, so a database should also contain mirrored clips. The function calls
    `progress` with the share of finished clips (0 to 1).
    """
    todo = [*recipes(), *_wanders(seed)]
    clips = []
    for i, recipe in enumerate(todo):
        own_seed = crc32(f"{seed} {recipe.name}".encode())
        manner = _manner(np.random.default_rng(own_seed))
        desired = make_desired_motion(list(recipe.legs), recipe.blend_s or _blend(recipe.legs))
        clip, _ = make_motion(recipe.name, desired, own_seed, manner)
        clips.append(with_tags(clip, tags_of(desired, recipe.tags)))
        if progress is not None:
            progress((i + 1) / len(todo))
    return clips


def _manner(rng: np.random.Generator) -> Manner:
    a, b, c, d = rng.uniform(-1, 1, 4)
    return Manner(1 + 0.1 * a, 1 + 0.12 * b, 0.30 + 0.05 * c, 1 + 0.1 * d)


def _wanders(seed: int) -> list[Recipe]:
    out = []
    for i in range(WANDERS):
        script = Script(np.random.default_rng([seed, i]), room_m=1.6)
        chapter = script.chapter(WANDER_S, ("walk", "turn", "shuffle", "look", "crouch"))
        out.append(Recipe(f"wander {i}", tuple(chapter.legs), blend_s=0.2))
    return out


def _blend(legs: tuple[Leg, ...]) -> float:
    """Return a blend time between segments (legs) of a walk for which the acceleration is at most about 2.5 m/s²."""
    velocities = np.array([(leg.forward + leg.room[0], leg.left + leg.room[1]) for leg in legs])
    change = np.linalg.norm(np.diff(velocities, axis=0), axis=1).max(initial=0.0)
    return float(np.clip(change / 2.2 / np.sqrt(2 * np.pi), 0.15, 0.36))
