"""Script that test_search.py runs to test the search without compilation, or with numba's bounds checks.

The function `reference` adds the same float32 terms in NumPy, column by column, for all frames at once.
"""

import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from test_search import MASKS, adversarial_queries, make_world, random_weights

from mm_ros.search import make_engine
from mm_ros.search.interface import LARGEST, Mask


def reference(engine, query, weights, mask):
    corpus = engine.corpus
    cost = np.zeros(len(corpus.features), np.float32)
    for c in range(len(query)):
        difference = query[c] - corpus.features[:, c]
        cost += (weights[c] * difference) * difference
    for stop, searchable in zip(corpus.stops, corpus.searchable_stops, strict=True):
        cost[searchable:stop] = np.inf
    cost[~(mask or Mask()).matches(corpus.tags)] = np.inf
    cost[~(cost < LARGEST)] = np.inf
    best = int(np.argmin(cost))
    return (best, cost[best]) if cost[best] < np.inf else (-1, LARGEST)


def main(count):
    np.seterr(all="ignore")
    rng = np.random.default_rng(0)
    for frames, share in ((1, 0.1), (17, 0.1), (61, 0.1), (300, 0.2), (4096, 0.5)):
        world = make_world(frames)
        engine = make_engine("tree", *world)
        queries = adversarial_queries(world[0], max(9, int(count * share)), rng)
        weights = random_weights(len(queries), 27, rng)
        for i in range(len(queries)):
            mask = MASKS[i % len(MASKS)]
            frame, cost = engine.search_batch(queries[i : i + 1], weights[i : i + 1], mask=mask)
            assert (int(frame[0]), cost[0]) == reference(engine, queries[i], weights[i], mask), (frames, i)
    print(f"agreed on {count} queries")


main(int(sys.argv[1]))
