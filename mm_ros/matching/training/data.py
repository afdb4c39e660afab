"""Make training data from a database: pose vectors, features, windows of frames, queries and their exact answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32, F64
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.engines.conditions import condition_of
from mm_ros.maths import rotations as rot
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import DIRECTION, POSITION, VELOCITY
from mm_ros.search import DEFAULT, Engine, Mask, make_engine

I64 = NDArray[np.int64]
END_MARGIN_S = 0.5  # The search skips the last 0.5 s of each clip, the default of the matcher's setting `end_margin`.
BAND = "band_"


@dataclass(frozen=True)
class MotionData:
    database: MotionDatabase
    codes: F32  # (N, WIDTH) pose vectors
    rates: F32  # (N, WIDTH) time derivatives of the pose vectors, computed within each clip
    features: F32  # (N, D) normalized
    chance: F64  # (N,) probability with which each frame is drawn, which is higher for rare combinations of tags

    @property
    def rate(self) -> float:
        return self.database.rate

    def starts_of_windows(self, frames: int) -> I64:
        """Return the rows at which a window of `frames` frames can start within a clip."""
        ranges = zip(self.database.range_starts, self.database.range_stops, strict=True)
        return np.concatenate([np.arange(a, max(a, b - frames + 1)) for a, b in ranges])


def motion_data(database: MotionDatabase) -> MotionData:
    d = database
    if len(d.skeleton) != pc.MOVED + 1:
        raise MmRosError(
            f"the learned engine has {pc.MOVED + 1} joints, the database {len(d.skeleton)}; import it without --fingers"
        )
    codes = pc.encode(d.positions, d.rotations, root_steps(d), d.contacts)
    rates = np.zeros_like(codes)
    for a, b in zip(d.range_starts, d.range_stops, strict=True):
        if b - a > 1:
            rates[a:b] = np.gradient(codes[a:b], 1 / d.rate, axis=0)
    _, kind, counts = np.unique(np.asarray(d.tags), return_inverse=True, return_counts=True)
    chance = counts[kind] ** -0.5
    return MotionData(d, codes, rates, np.array(d.features, np.float32), chance / chance.sum())


def root_steps(d: MotionDatabase) -> F32:
    """Compute the velocities (N, 3) of the root from each frame to the next in root axes: forward [m/s], left [m/s] and
    turn rate [rad/s]."""
    p, q = np.asarray(d.positions[:, 0], np.float64), np.asarray(d.rotations[:, 0], np.float64)
    moved = rot.rotate(rot.inverse(q[:-1]), p[1:] - p[:-1])
    turned = rot.wrap_angle(rot.yaw_of(q[1:]) - rot.yaw_of(q[:-1]))
    out = np.empty((len(p), 3), np.float32)
    out[:-1] = np.stack([moved[:, 0], moved[:, 1], turned], -1) * d.rate
    lasts = np.asarray(d.range_stops) - 1
    out[lasts] = out[np.maximum(lasts - 1, np.asarray(d.range_starts))]
    lone = np.asarray(d.range_stops) - np.asarray(d.range_starts) == 1
    out[lasts[lone]] = 0
    return out


class Drawing:
    """Random selection among `rows` (indices of frames); `chance` contains the probability of each row."""

    def __init__(self, rows: I64, chance: F64) -> None:
        self.rows = rows
        self._edges = np.cumsum(chance[rows])

    def draw(self, count: int, rng: np.random.Generator) -> I64:
        at = np.searchsorted(self._edges, rng.random(count) * self._edges[-1], side="right")
        return self.rows[np.minimum(at, len(self.rows) - 1)]


@dataclass
class Questions:
    """Inputs of the projector network, and the frames that the exact search finds for them."""

    inputs: F32  # (Q, D + C) query and condition
    answers: I64  # (Q,) database index of the frame that the exact search finds for each query
    costs: F32  # (Q,)


class QuerySampler:
    """Random queries like those of the matcher, which combine the features of a pose with any desired trajectory."""

    def __init__(self, data: MotionData, weights: F32, seed: int) -> None:
        d = data.database
        self.data, self.weights, self.seed = data, weights, seed
        self.engine: Engine = make_engine(
            DEFAULT, data.features, d.range_starts, d.range_stops, np.asarray(d.tags),
            ends_excluded_frames=round(END_MARGIN_S * d.rate), usual_weights=weights,
        )  # fmt: skip
        self.rows = Drawing(np.arange(len(d)), data.chance)
        searchable = np.concatenate(
            [np.arange(a, max(a, b)) for a, b in zip(d.range_starts, self.engine.corpus.searchable_stops, strict=True)]
        )
        self.kinds = np.unique(np.asarray(d.tags)[searchable])  # combinations of tags that searchable frames have
        self.bands = sum(1 << i for i, n in enumerate(d.tag_names) if n.startswith(BAND))
        self.positions = [d.layout.offsets[f.name] for f in d.layout.features if f.kind == POSITION]
        self.directions = [d.layout.offsets[f.name] for f in d.layout.features if f.kind in (DIRECTION, VELOCITY)]
        self.trajectory = np.concatenate(
            [np.arange(s.start, s.stop) for s in [*self.positions, *self.directions]] or [np.zeros(0, np.int64)]
        )

    def pool(self, index: int, count: int) -> Questions:
        """Draw `count` random queries, and search the frames that answer these queries. The same `index` always gives
        the same queries, so that the training can stop and resume."""
        rng = np.random.default_rng([self.seed, 77, index])
        rows = self.rows.draw(count, rng)
        queries = self._queries(rows, rng)
        inputs = np.empty((count, queries.shape[1] + 3 * len(self.data.database.tag_names)), np.float32)
        answers, costs = np.empty(count, np.int64), np.empty(count, np.float32)
        masks = self._masks(rows, rng)
        for mask in set(masks):
            asked = np.array([m == mask for m in masks])
            answers[asked], costs[asked] = self.engine.search_batch(queries[asked], self.weights, mask=mask)
            inputs[asked] = np.concatenate(
                [queries[asked], np.tile(condition_of(mask, len(self.data.database.tag_names)), (asked.sum(), 1))], 1
            )
        return Questions(inputs, answers, costs)

    def _queries(self, rows: I64, rng: np.random.Generator) -> F32:
        d, count = self.data.database, len(rows)
        out = self.data.features[rows].copy()
        other = rng.random(count) < 0.5  # Half of the training queries get the trajectory of another frame.
        out[np.ix_(other, self.trajectory)] = self.data.features[
            np.ix_(self.rows.draw(int(other.sum()), rng), self.trajectory)
        ]
        raw = out * d.feature_std + d.feature_mean
        # In live use the avatar's root is not at its desired position, so the trajectory of each query is turned and
        # shifted by a random amount.
        off = rng.random(count) < 0.7
        turn = np.where(off, rng.normal(0, 0.25, count), 0.0)
        shift = np.where(off[:, None], rng.normal(0, 0.08, (count, 2)), 0.0)
        for s in self.directions + self.positions:
            raw[:, s] = _turned(raw[:, s], turn)
        for s in self.positions:
            raw[:, s] += np.tile(shift, (s.stop - s.start) // 2)
        out = ((raw - d.feature_mean) / d.feature_std).astype(np.float32)
        noisy = np.where(rng.random(count) < 0.5, rng.random(count), 0.1)
        return np.ascontiguousarray(out + rng.normal(0, 1, out.shape) * 0.6 * noisy[:, None], np.float32)

    def _masks(self, rows: I64, rng: np.random.Generator) -> list[Mask]:
        """Draw a mask for each row: in most cases the height band of the row, else another band or a tag query."""
        tags = np.asarray(self.data.database.tags)[rows]
        elsewhere = self.kinds[rng.integers(len(self.kinds), size=len(rows))]
        dice = rng.random(len(rows))
        menu = self._tag_queries(rng)
        out = []
        for own, other, what in zip(tags.tolist(), elsewhere.tolist(), dice.tolist(), strict=True):
            if what < 0.7:
                mask = Mask(all_of=own & self.bands)
            elif what < 0.85:
                mask = Mask(all_of=other & self.bands)
            else:
                mask = menu[int((what - 0.85) / 0.15 * len(menu))]
            out.append(mask if self._possible(mask) else Mask())
        return out

    def _possible(self, mask: Mask) -> bool:
        return bool(mask.matches(self.kinds).any())

    def _tag_queries(self, rng: np.random.Generator) -> list[Mask]:
        """Draw at most 61 masks, because each mask needs a separate search. One mask allows all frames, and the other
        masks are random tag queries, often combined with a height band."""
        out = [Mask()]
        for _ in range(60):
            kind = int(self.kinds[rng.integers(len(self.kinds))])
            band = kind & self.bands if rng.random() < 0.7 else 0
            bits = [1 << i for i in range(64) if (kind & ~self.bands) >> i & 1]
            others = [1 << i for i in range(64) if int(np.bitwise_or.reduce(self.kinds)) & ~self.bands & ~kind >> i & 1]
            way = rng.random()
            if way < 0.4 and bits:
                out.append(Mask(all_of=band | int(rng.choice(bits))))
            elif way < 0.7 and bits and others:
                out.append(Mask(all_of=band, any_of=int(rng.choice(bits)) | int(rng.choice(others))))
            elif others:
                out.append(Mask(all_of=band, none_of=int(rng.choice(others))))
        return [m for m in out if self._possible(m)]


def _turned(pairs: Any, angle: Any) -> Any:
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x, y = pairs[:, 0::2], pairs[:, 1::2]
    out = np.empty_like(pairs)
    out[:, 0::2], out[:, 1::2] = c * x - s * y, s * x + c * y
    return out
