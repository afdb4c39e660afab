"""Simulated users who never stand still for 3 s, and the error with which the calibration measures their height.

Run for example `python -m mm_ros.evaluation.restless_users --first 1000 --users 30`.

The users move like people in the CMU motion data, or like the synthetic user if the CMU motion data are missing. The
users' heights and the headset positions on their heads are random. Motion in which a user stands still is cut out. The
constants of tracking/standing.py were chosen with seeds 100 to 199, so an independent check must use other seeds.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, HIPS
from mm_ros.body.types import F64, HEAD_ROLE, Calibration
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.tracking.calibration import Calibrator
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip

RATE = 30.0
STILL_M, LONGEST_STILL_S = 0.03, 2.0
WARNED_SIGMA = 0.05  # If the uncertainty of the calibrated height is above 0.05 m, the user gets a warning.
CLIP_S = 45.0  # duration of the synthetic user's motion [s]


@dataclass(frozen=True)
class User:
    name: str
    height: float  # height of the headset when the simulated user stands upright [m]
    track: TrackerTrack


@dataclass(frozen=True)
class Result:
    user: User
    measured: Calibration

    @property
    def error(self) -> float:
        return self.measured.head_height - self.user.height

    @property
    def warned(self) -> bool:
        c = self.measured
        return not c.calibrated or bool(c.note) or c.head_height_sigma > WARNED_SIGMA


@dataclass(frozen=True)
class Person:
    name: str
    clips: tuple[Clip, ...]
    ratio: float  # head height of the standing person, divided by the head height of the skeleton


def people_of(clips: Sequence[Clip]) -> tuple[Person, ...]:
    """Return the people in the clips who stand upright long enough to measure their standing height."""
    found: dict[str, list[Clip]] = defaultdict(list)
    for clip in clips:
        found[clip.subject or clip.name.split("_")[0]].append(clip)
    people = (Person(name, tuple(own), upright_ratio(own)) for name, own in sorted(found.items()))
    return tuple(p for p in people if p.ratio)


def make_user(
    seed: int, people: Sequence[Person] = (), seconds: float = 60.0, heights: tuple[float, float] = (1.45, 2.0)
) -> User:
    """Make a simulated user. `heights` is the range [m] from which the standing height of the headset is chosen. If
    `people` is empty, the user moves like the synthetic user."""
    rng = np.random.default_rng(seed)
    height = float(rng.uniform(*heights))
    headset = (float(rng.uniform(0.07, 0.12)), 0.0, float(rng.uniform(0.05, 0.11)))
    simulation = Simulation(rate=RATE, headset_in_head=headset, noise_m=0.001, noise_rad=0.003, seed=seed)
    synthetic = None if people else Person(f"synthetic {seed}", (SyntheticUser(seed).clip(CLIP_S),), 1.0)
    person = synthetic or people[int(rng.integers(len(people)))]
    parts: list[TrackerTrack] = []
    while sum(map(len, parts)) < seconds * RATE:
        clip = person.clips[int(rng.integers(len(person.clips)))]
        scale = (height - headset[2]) / (clip.skeleton.head_height * person.ratio)
        if len(clip) > clip.rate:
            track = simulate_clip(scaled(clip, scale), replace(simulation, seed=seed + len(parts)))
            parts.append(without_stillness(track))
    return User(person.name, height, joined(parts, round(seconds * RATE)))


def upright_ratio(clips: Sequence[Clip]) -> float:
    """Return the head height of the standing person divided by the head height of the skeleton, or 0 if the clips show
    hardly any standing."""
    found = []
    for clip in clips:
        positions, _ = clip.globals()
        torso = positions[:, HEAD] - positions[:, HIPS]
        lean = np.linalg.norm(torso[:, :2], axis=1) / np.maximum(torso[:, 2], 0.05)
        speed = np.linalg.norm(np.gradient(positions[:, HIPS, :2], axis=0), axis=1) * clip.rate
        ratio = positions[:, HEAD, 2] / clip.skeleton.head_height
        found.append(
            ratio[(lean < 0.2) & (speed < 0.15) & (ratio > 0.9) & (ratio < 1.03)][:: max(round(clip.rate / 30), 1)]
        )
    all_found = np.concatenate(found)
    return float(np.median(all_found)) if len(all_found) > 200 else 0.0


def scaled(clip: Clip, scale: float) -> Clip:
    skeleton = clip.skeleton.scaled(scale)
    return replace(clip, positions=(clip.positions * np.float32(scale)), skeleton=skeleton)


def without_stillness(track: TrackerTrack) -> TrackerTrack:
    """Remove samples until the head never stays within STILL_M metres for longer than LONGEST_STILL_S seconds."""
    head, most = track.positions[:, HEAD_ROLE], round(LONGEST_STILL_S * RATE)
    kept: list[int] = []
    for i in range(len(head)):
        last = head[[*kept[-most:], i]]
        if len(last) <= most or np.linalg.norm(last.max(0) - last.min(0)) > STILL_M:
            kept.append(i)
    return taken(track, np.array(kept))


def taken(track: TrackerTrack, rows: np.ndarray) -> TrackerTrack:
    names = ("positions", "rotations", "velocities", "angular_velocities", "state")
    return replace(track, stamps_ns=track.stamps_ns[rows], **{n: getattr(track, n)[rows] for n in names})


def joined(parts: Sequence[TrackerTrack], frames: int) -> TrackerTrack:
    """Join parts of motion to one track, in which each part begins at the place on the floor where the part before it
    ends."""
    place: F64 = parts[0].positions[0, HEAD_ROLE, :2]
    moved = []
    for part in parts:
        positions = part.positions.copy()
        positions[..., :2] += place - positions[0, HEAD_ROLE, :2]
        place = positions[-1, HEAD_ROLE, :2]
        moved.append(replace(part, positions=positions))
    names = ("positions", "rotations", "velocities", "angular_velocities", "state")
    arrays: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in moved])[:frames] for n in names}
    stamps = np.round(np.arange(len(arrays["state"])) * 1e9 / RATE).astype(np.int64)
    return TrackerTrack(stamps, **arrays)


def measure(user: User) -> Result:
    calibrator = Calibrator()
    for i in range(len(user.track)):
        calibrator.step(user.track.frame(i))
    return Result(user, calibrator.current)


def lines(results: Sequence[Result]) -> list[str]:
    out = []
    for r in results:
        c = r.measured
        out.append(
            f"{r.user.name:>14}  {r.user.height:.2f} m  error {100 * r.error:+5.1f} cm  "
            f"± {100 * c.head_height_sigma:.1f} cm{'  warned' if r.warned else ''}"
        )
    errors = np.abs([r.error for r in results])
    silent = sum(not r.warned and abs(r.error) > 0.06 for r in results)
    out.append(
        f"{len(results)} users: within 3 cm {np.mean(errors <= 0.03):.0%}, median {100 * np.median(errors):.1f} cm, "
        f"largest {100 * errors.max():.1f} cm; wrong by more than 6 cm without a warning: {silent}"
    )
    return out


def main() -> None:
    from mm_ros.motion.importing.load import load_clips
    from mm_ros.motion.shared_data import dataset, has_data

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1000, help="first seed (default: %(default)s)")
    parser.add_argument("--users", type=int, default=30, help="number of users (default: %(default)s)")
    parser.add_argument("--children", action="store_true", help="headsets at 0.85 to 1.35 m")
    parser.add_argument("--synthetic", action="store_true", help="the synthetic user, without motion data")
    args = parser.parse_args()
    people: tuple[Person, ...] = ()
    if has_data() and not args.synthetic:
        people = people_of(load_clips([dataset("cmu_locomotion"), dataset("cmu_general")]))
    heights = (0.85, 1.35) if args.children else (1.45, 2.0)
    users = (make_user(args.first + i, people, heights=heights) for i in range(args.users))
    print("\n".join(lines([measure(user) for user in users])))


if __name__ == "__main__":
    main()
