"""All engines agree with brute force, bit for bit."""

import numpy as np
import pytest

from mm_ros.core.search import ENGINES, Mask, make_engine


def smooth_motion(frames, columns=27, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(frames + 64, columns))
    motion = np.array([np.convolve(c, np.hanning(64), "valid")[:frames] for c in noise.T]).T
    return np.ascontiguousarray(motion / (motion.std(axis=0) + 1e-6), np.float32)


@pytest.mark.parametrize("frames", [1, 15, 16, 17, 61, 1000, 20000])
def test_engines_agree_with_brute_force(frames):
    rng = np.random.default_rng(frames)
    features = smooth_motion(frames)
    starts = np.arange(0, frames, 700)
    stops = np.minimum(starts + 700, frames)
    tags = rng.integers(0, 16, frames).astype(np.uint64)
    engines = [make_engine(n, features, starts, stops, tags, 5 if frames > 61 else 0) for n in ENGINES]
    near = features[rng.integers(0, frames, 300)]
    noise = rng.normal(size=near.shape).astype(np.float32)
    queries = near + noise * rng.choice([0, 0.3, 3, 50], (300, 1)).astype(np.float32)
    weights = rng.random((300, 27)).astype(np.float32) * rng.integers(0, 2, (300, 27)).astype(np.float32)
    for mask in (None, Mask(all_of=3), Mask(any_of=5, none_of=2), Mask(none_of=1)):
        found = [
            e.search_batch(queries, weights, currents=np.arange(300) % frames, exclude_radius=20, mask=mask)
            for e in engines
        ]
        for frames_found, costs in found[:-1]:
            np.testing.assert_array_equal(frames_found, found[-1][0])
            np.testing.assert_array_equal(costs, found[-1][1])
