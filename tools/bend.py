"""Measure how well mm_ros/tracking/bend.py estimates the bend of the back from a lowered head, and fit its weights.

`python tools/bend.py [--fit]` prints the error of the estimated horizontal distance from hips to head. The error is
measured on subjects of the CMU motion data (07, 16, 82, 83 and 120 chose the method, 08 and 35 give the published
error), and on synthetic users who squat, bow, lunge or sit, in balance: their centre of mass stays above the feet. The
option `--fit` fits the weights again to all other subjects of the CMU data and to other synthetic users.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_HAND, RIGHT_HAND
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics
from mm_ros.motion.importing import load_clips
from mm_ros.motion.shared_data import dataset
from mm_ros.tracking import bend

CHOOSE, CLAIM = ("07", "16", "82", "83", "120"), ("08", "35")
KINDS = ("squat", "bow", "lunge", "sit")
# All lengths in this file are shares of the head joint's height in a standing person; the heights of ankle, shin, thigh
# and trunk add up to 1.
SHIN = THIGH = 0.2785
ANKLE, FEET_CENTRE = 0.045, 0.03
LEAST_DROP = 0.03
NOISE = (0.0, 0.2, 0.08, 0.08, 0.0)  # noise added to each sample in the fit, because people also nod and hold things
# Each row: lowering of the head, its downward pitch [rad], hands ahead of and above the head, hips behind the head.
Samples = NDArray[np.float64]


def of_cmu(clips: list[Any]) -> dict[str, Samples]:
    """Return rows as in `Samples` from the lowered postures of each person (subject) in the CMU data."""
    out: dict[str, list[Samples]] = {}
    for clip in clips:
        p, q = (a.astype(np.float64) for a in clip.globals())
        standing = float(clip.skeleton.rest_positions()[HEAD, 2])
        yaw = metrics.facing_of_body(p)
        ahead = np.stack([np.cos(yaw), np.sin(yaw)], -1)
        looks = rot.rotate(q[:, HEAD], np.tile([1.0, 0.0, 0.0], (len(q), 1)))[:, 2]
        hands = (p[:, [LEFT_HAND, RIGHT_HAND]].mean(1) - p[:, HEAD]) / standing
        behind = ((p[:, HEAD] - p[:, HIPS])[:, :2] * ahead).sum(1) / standing
        drop = 1.0 - p[:, HEAD, 2] / standing - bend.BENT_FROM
        forward = (hands[:, :2] * ahead).sum(1)
        rows = np.stack([drop, -np.arcsin(np.clip(looks, -1, 1)), forward, hands[:, 2], behind], -1)
        out.setdefault(clip.subject, []).append(rows[drop > LEAST_DROP][::3])
    return {s: a for s, parts in out.items() if len(a := np.concatenate(parts))}


def head_ahead(drop: float, lean: float) -> float | None:
    """Return how far the head is ahead of the ankles of a person in balance, or None if no bend of the legs fits."""
    height = 1.0 - drop - bend.HIPS_TO_HEAD * np.cos(lean) - ANKLE
    if not 0.05 < height < SHIN + THIGH:
        return None
    x = np.linspace(-1, 1, 400) * np.sqrt((SHIN + THIGH) ** 2 - height**2)  # of the hips
    r = np.hypot(x, height)
    knee = SHIN * np.sin(
        np.arctan2(x, height) + np.arccos(np.clip((SHIN**2 + r**2 - THIGH**2) / (2 * SHIN * r), -1, 1))
    )
    # Winter's shares of the body's mass: trunk, arms and head 0.68, thighs 0.20, shins 0.093.
    mass = 0.68 * (x + 0.5 * bend.HIPS_TO_HEAD * np.sin(lean)) + 0.1 * (x + knee) + 0.0465 * knee
    at = int(np.abs(mass - FEET_CENTRE).argmin())
    return float(x[at] + bend.HIPS_TO_HEAD * np.sin(lean)) if abs(mass[at] - FEET_CENTRE) < 0.01 else None


def synthetic(kind: str, rng: np.random.Generator, users: int = 40) -> Samples:
    rows = []
    for _ in range(users):
        gaze, u = rng.normal(0, 0.12), np.linspace(0.1, 1.0, 25)
        if kind == "squat":
            deepest, most = rng.uniform(0.18, 0.42), np.radians(rng.uniform(15, 45))
            looks, hands = most * rng.uniform(-0.1, 0.6) + gaze, (rng.choice([0.3, 0.05]), rng.choice([-0.12, -0.42]))
        elif kind == "bow":
            deepest, most = None, np.radians(rng.uniform(35, 80))
            looks, hands = most * rng.uniform(0.6, 1.1), (0.05, -0.45)
        elif kind == "lunge":
            deepest, most = rng.uniform(0.12, 0.3), np.radians(rng.uniform(0, 20))
            looks, hands = gaze, (rng.choice([0.05, 0.25]), -0.38)
        else:
            deepest, most, looks, hands = (
                rng.uniform(0.24, 0.29),
                np.radians(rng.uniform(-5, 12)),
                gaze + 0.1,
                (0.2, -0.3),
            )
        lean = most * u
        bow = bend.HIPS_TO_HEAD * (1 - np.cos(lean)) + 0.02 * u
        drop = bow if deepest is None else deepest * u
        stands = [kind not in ("squat", "bow") or head_ahead(d, a) is not None for d, a in zip(drop, lean, strict=True)]
        start = np.array([0.0, -0.48])
        held = start + u[:, None] * (np.array(hands) - start)
        behind = bend.HIPS_TO_HEAD * np.sin(lean)
        row = np.stack([drop - bend.BENT_FROM, gaze / 2 + u * (looks - gaze / 2), *held.T, behind], -1)
        rows.append(row[np.array(stands) & (row[:, 0] > LEAST_DROP)])
    return np.concatenate(rows)


def predicted(s: Samples, weights: Any) -> NDArray[np.float64]:
    """Return how far the hips are behind the head, as `bend.behind_of` computes it for a person on the feet."""
    d = np.clip(s[:, 0], *bend.DROP)
    p, f, a = np.clip(s[:, 1], *bend.PITCH), np.clip(s[:, 2], *bend.FORWARD), np.clip(s[:, 3], *bend.ABOVE)
    u = np.stack([np.ones_like(d), p, d, p * d, f, a, f * d, a * d], -1) @ np.asarray(weights)
    drop = np.clip(s[:, 0], 0.0, bend.LARGEST_DROP)
    cosine = 1.0 - drop**2 / (drop + bend.SOFT) / bend.HIPS_TO_HEAD / (1.0 + np.exp(-np.clip(u, -6, 6)))
    return np.asarray(bend.HIPS_TO_HEAD * np.sqrt(1.0 - np.clip(cosine, -0.2, 1.0) ** 2))


def fitted(groups: list[Samples]) -> NDArray[np.float64]:
    from scipy.optimize import least_squares

    rng = np.random.default_rng(0)
    noisy = [np.concatenate([g + rng.normal(0, 1, g.shape) * NOISE for _ in range(3)]) for g in groups]
    every = np.concatenate(noisy)
    weight = np.concatenate([np.full(len(g), len(g) ** -0.5) for g in noisy])  # each group has the same total weight
    start = np.array(bend.WEIGHTS)

    def residuals(w: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([weight * (predicted(every, w) - every[:, 4]) * 10, 0.02 * (w - start)])

    return np.asarray(least_squares(residuals, start, loss="soft_l1").x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit the weights anew and measure them too")
    args = parser.parse_args()
    people = of_cmu(load_clips([dataset("cmu_general"), dataset("cmu_locomotion")]))
    sets = {f"CMU {' '.join(c)}": np.concatenate([people[s] for s in c if s in people]) for c in (CHOOSE, CLAIM)}
    sets |= {kind: synthetic(kind, np.random.default_rng(1)) for kind in KINDS}
    weights = {"the shipped weights": np.array(bend.WEIGHTS)}
    if args.fit:
        others = [a for s, a in people.items() if s not in CHOOSE + CLAIM]
        weights["fitted anew"] = fitted(others + [synthetic(kind, np.random.default_rng(2)) for kind in KINDS])
    for name, w in weights.items():
        print(f"{name}: {', '.join(f'{v:.2f}' for v in w)}")
        for title, s in sets.items():
            error = 160.0 * np.abs(predicted(s, w) - s[:, 4])
            print(f"  {title}: median {np.median(error):.1f} cm, p95 {np.percentile(error, 95):.1f} cm, n {len(s)}")


if __name__ == "__main__":
    main()
