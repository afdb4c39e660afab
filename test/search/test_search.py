"""All engines agree with brute force, bit for bit: on motion, on noise, and on all inputs that caused errors before."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_ros.base.cache import kernels_key, writable_root
from mm_ros.base.errors import MmRosError
from mm_ros.search import ENGINES, Mask, make_engine

FAST = [n for n in ENGINES if n != "brute"]


def smooth_motion(frames, columns=27, seed=0):
    """Clips of a smooth random walk: neighbours are alike, as in motion capture."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(frames + 64, columns))
    kernel = np.hanning(64)
    motion = np.array([np.convolve(c, kernel, "valid")[:frames] for c in noise.T]).T
    return np.ascontiguousarray(motion / (motion.std(axis=0) + 1e-6), np.float32)


def make_world(frames, columns=27, seed=0, clip=700, excluded=5):
    rng = np.random.default_rng(seed)
    starts = np.arange(0, frames, clip)
    tags = rng.integers(0, 16, frames).astype(np.uint64)
    tags[: frames // 100] |= np.uint64(1 << 63)  # rare, and the sign bit of an int64
    features = smooth_motion(frames, columns, seed)
    return features, starts, np.minimum(starts + clip, frames), tags, excluded if frames > 100 else 0


def adversarial_queries(features, count, rng):
    columns = features.shape[1]
    rows = features[rng.integers(0, len(features), count)]
    kind = np.arange(count) % 9
    queries = rows + rng.normal(size=rows.shape).astype(np.float32) * np.float32(0.3)
    queries[kind == 0] = rows[kind == 0]  # exact rows
    queries[kind == 1] = rng.normal(size=queries[kind == 1].shape)
    queries[kind == 2] = rng.permuted(rows[kind == 2], axis=1)
    queries[kind == 3] *= 5
    queries[kind == 4] *= 50
    queries[kind == 5] *= 1e6
    one = rng.integers(0, columns, (kind == 6).sum())
    queries[np.flatnonzero(kind == 6), one] *= 20  # one column far beyond the range of the codes
    queries[kind == 7] = rng.uniform(-3, 3, queries[kind == 7].shape)
    return np.ascontiguousarray(queries, np.float32)


def random_weights(count, columns, rng):
    weights = rng.random((count, columns)).astype(np.float32)
    kind = rng.integers(0, 6, count)
    weights[kind == 0] = 1
    weights[kind == 1] = 0
    weights[np.flatnonzero(kind == 1), rng.integers(0, columns, (kind == 1).sum())] = 1  # all zero but one
    weights[kind == 2] *= rng.integers(0, 2, (int((kind == 2).sum()), columns))
    weights[kind == 3] *= np.float32(1e30)
    weights[kind == 4] = rng.choice([0.5, 1, 1.9], (int((kind == 4).sum()), columns))
    return weights


def assert_same(found, reference):
    np.testing.assert_array_equal(found[0], reference[0])
    np.testing.assert_array_equal(found[1], reference[1])


MASKS = [
    None, Mask(all_of=3), Mask(any_of=5, none_of=2), Mask(none_of=1), Mask(all_of=1 << 63), Mask(any_of=1 << 40),
    Mask(none_of=1 << 40), Mask(all_of=15), Mask(none_of=15),
]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 3, 4, 16, 27, 40, 128])
@pytest.mark.parametrize("frames", [1, 15, 16, 17, 61, 1000])
def test_engines_agree_on_small_databases(frames, columns):
    rng = np.random.default_rng(frames + columns)
    world = make_world(frames, columns)
    engines = {n: make_engine(n, *world) for n in ENGINES}
    queries, weights = adversarial_queries(world[0], 90, rng), random_weights(90, columns, rng)
    for mask in MASKS:
        asked = {"currents": np.arange(90) % frames, "exclude_radius": 20, "mask": mask}
        reference = engines["brute"].search_batch(queries, weights, **asked)
        for name in FAST:
            assert_same(engines[name].search_batch(queries, weights, **asked), reference)


@pytest.mark.parametrize(
    "usual", [[1.0] * 27, [6.0] * 6 + [4.0] * 6 + [1.0] * 15, [1e-6] * 13 + [1e6] * 14, [0.0] * 27]
)
def test_usual_weights_change_nothing_but_the_pace(usual):
    rng = np.random.default_rng(8)
    world = make_world(3000, seed=2)
    queries, weights = adversarial_queries(world[0], 900, rng), random_weights(900, 27, rng)
    weights[:300] = usual
    tree = make_engine("tree", *world, usual_weights=np.array(usual, np.float32))
    assert_same(tree.search_batch(queries, weights), make_engine("brute", *world).search_batch(queries, weights))


@pytest.mark.parametrize("mask", MASKS)
def test_engines_agree_on_adversarial_queries(mask):
    rng = np.random.default_rng(3)
    world = make_world(4000, seed=1)
    engines = {n: make_engine(n, *world) for n in ENGINES}
    queries, weights = adversarial_queries(world[0], 11_200, rng), random_weights(11_200, 27, rng)
    reference = engines["brute"].search_batch(queries, weights, mask=mask)
    bounds = np.minimum(reference[1], np.float32(1e37)) * rng.choice([0, 0.5, 1, 1.5], len(queries)).astype(np.float32)
    bounds[::7] = np.inf
    asked = {"bounds": bounds, "currents": rng.integers(-1, 4000, len(queries)), "exclude_radius": 30, "mask": mask}
    reference = engines["brute"].search_batch(queries, weights, **asked)
    for name in FAST:
        assert_same(engines[name].search_batch(queries, weights, **asked), reference)


def test_engines_agree_on_a_million_rows():
    rng = np.random.default_rng(5)
    world = make_world(1_000_000, columns=9, clip=5000)
    engines = {n: make_engine(n, *world) for n in ENGINES}
    queries, weights = adversarial_queries(world[0], 60, rng), random_weights(60, 9, rng)
    reference = engines["brute"].search_batch(queries, weights)
    for name in FAST:
        assert_same(engines[name].search_batch(queries, weights), reference)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_engines_agree_whatever_the_numbers(data):
    frames, columns = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    scale = data.draw(st.sampled_from([1e-20, 1e-3, 1, 100, 1e12]))
    # few different values: many equal costs
    features = (rng.integers(-3, 4, (frames, columns)) * scale).astype(np.float32)
    world = (features, [0], [frames], rng.integers(0, 4, frames).astype(np.uint64), data.draw(st.integers(0, 3)))
    queries = (rng.integers(-6, 7, (8, columns)) * scale / 2).astype(np.float32)
    weights = rng.choice([0, 0.25, 1, 1e-20, 1e10], (8, columns)).astype(np.float32)
    asked = {"currents": rng.integers(-1, frames, 8), "exclude_radius": data.draw(st.integers(0, 5))}
    reference = make_engine("brute", *world).search_batch(queries, weights, **asked)
    for name in FAST:
        assert_same(make_engine(name, *world).search_batch(queries, weights, **asked), reference)


@pytest.mark.parametrize("name", ENGINES)
class TestEveryEngine:
    def make(self, name, frames=500, **changes):
        features, starts, stops, tags, _ = make_world(frames, clip=100)
        return make_engine(name, features, starts, stops, tags, changes.get("excluded", 10)), features

    def test_a_row_finds_itself_and_equal_rows_the_lower_frame(self, name):
        features = np.tile(smooth_motion(50), (4, 1))
        engine = make_engine(name, features, [0], [200])
        assert engine.search(features[130], np.ones(27, np.float32)) == (30, 0.0)

    def test_ends_of_clips_are_never_returned(self, name):
        engine, features = self.make(name)
        found, _ = engine.search_batch(features, np.ones(27, np.float32))
        assert (found % 100 < 90).all()

    def test_nothing_below_the_bound_is_minus_one_and_the_bound(self, name):
        engine, features = self.make(name)
        weights = np.ones(27, np.float32)
        query = features[3] + np.float32(0.1)
        frame, cost = engine.search(query, weights)
        assert engine.search(query, weights, bound=cost) == (-1, cost)  # equal is not less
        assert engine.search(query, weights, bound=np.nextafter(np.float32(cost), np.float32(9))) == (frame, cost)
        assert engine.cost(query, weights, frame) == cost

    def test_the_neighbourhood_of_the_current_frame_is_excluded_within_its_clip(self, name):
        engine, features = self.make(name)
        weights = np.ones(27, np.float32)
        found, _ = engine.search(features[105], weights, current=105, exclude_radius=8)
        assert abs(found - 105) >= 8
        assert engine.search(features[89], weights, current=101, exclude_radius=30) == (89, 0.0)

    def test_an_infinite_bound_never_finds_padding(self, name):
        """Regression: with an infinite bound, padding lanes were accepted and the search left the arrays."""
        engine = make_engine(name, np.full((17, 3), 1e18, np.float32), [0], [17])
        frame, _ = engine.search(np.full(3, -1e18, np.float32), np.zeros(3, np.float32))
        assert frame == 0
        assert engine.search(np.full(3, -3e38, np.float32), np.ones(3, np.float32))[0] == -1  # costs overflow

    def test_query_and_row_may_lie_beyond_the_range_together(self, name):
        """Regression: outside the codes' range, a bound counted a distance that query and row share."""
        features = smooth_motion(20_000, 8)
        features[5000, 2], features[5001, 2] = 300, 310
        engine = make_engine(name, features, [0], [20_000])
        assert engine.search(features[5001], np.ones(8, np.float32), bound=1.0) == (5001, 0.0)
        near = features[5001] + np.float32(0.01)
        assert engine.search(near, np.ones(8, np.float32))[0] == 5001

    def test_all_clips_too_short(self, name):
        engine = make_engine(name, smooth_motion(40), [0, 20], [20, 40], None, 25)
        assert engine.search(np.zeros(27, np.float32), np.ones(27, np.float32))[0] == -1

    def test_stored_and_read_only_arrays_give_the_same(self, name, tmp_path):
        engine, features = self.make(name)
        np.save(tmp_path / "features.npy", features)
        mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
        arrays = {}
        for key, value in engine.to_arrays().items():
            np.save(tmp_path / f"{key}.npy", value)
            arrays[key] = np.load(tmp_path / f"{key}.npy", mmap_mode="r")
        starts = np.arange(0, 500, 100)
        again = make_engine(name, mapped, starts, starts + 100, engine.corpus.tags, 10, arrays=arrays)
        assert again.from_store == bool(arrays) == (name != "brute")
        assert set(again.to_arrays()) == set(arrays)
        queries = adversarial_queries(features, 90, np.random.default_rng(0))
        weights = np.ones(27, np.float32)
        assert_same(again.search_batch(queries, weights), engine.search_batch(queries, weights))

    @pytest.mark.parametrize("changed", ["feature", "tag", "clips", "ends", "engine", "format"])
    def test_an_index_of_other_data_is_not_used(self, name, changed):
        engine, features = self.make(name)
        arrays, tags = engine.to_arrays(), engine.corpus.tags.copy()
        features, starts, excluded = features.copy(), np.arange(0, 500, 100), 10
        if changed == "feature":
            features[333, 26] += np.float32(9)
        elif changed == "tag":
            tags[333] ^= np.uint64(1)
        elif changed == "clips":
            starts = np.array([0, 100, 200, 300])
        elif changed == "ends":
            excluded = 9
        elif changed == "engine":
            other = "boxes" if name == "tree" else "tree"
            arrays = make_engine(other, features, starts, starts + 100, tags, 10).to_arrays()
        elif arrays:
            arrays["made_of"] = arrays["made_of"] + np.uint64(1)
        world = (features, starts, starts + 100, tags, excluded)
        again = make_engine(name, *world, arrays=arrays)
        assert not again.from_store
        asked = (features, np.ones(27, np.float32))
        reference = make_engine("brute", *world).search_batch(*asked, mask=Mask(none_of=1))
        assert_same(again.search_batch(*asked, mask=Mask(none_of=1)), reference)

    def test_threads_and_single_queries_agree_with_the_batch(self, name):
        engine, features = self.make(name)
        rng = np.random.default_rng(2)
        queries, weights = adversarial_queries(features, 99, rng), random_weights(99, 27, rng)
        batch = engine.search_batch(queries, weights)
        assert_same(engine.search_batch(queries, weights, threads=3), batch)
        for i in range(99):
            assert engine.search(queries[i], weights[i]) == (batch[0][i], batch[1][i])

    def test_k_best_are_the_best_apart(self, name):
        engine, features = self.make(name)
        weights = np.ones(27, np.float32)
        query = features[40] + np.float32(0.05)
        frames, costs, terms = engine.k_best(query, weights, 5, apart_frames=10)
        assert (frames[0], costs[0]) == engine.search(query, weights)
        assert (np.diff(costs) >= 0).all()
        assert (np.abs(frames[:, None] - frames)[~np.eye(5, dtype=bool)] >= 10).all()
        np.testing.assert_allclose(terms.sum(axis=1), costs, rtol=1e-5)

    @pytest.mark.parametrize(
        ("query", "weights", "says"),
        [
            (np.zeros(26), np.ones(27), "27 numbers"),
            (np.zeros(27), np.ones(28), "27 numbers"),
            (np.where(np.arange(27) == 4, np.nan, 0), np.ones(27), "query must be finite: column 4"),
            (np.where(np.arange(27) == 5, np.inf, 0), np.ones(27), "query must be finite: column 5"),
            (np.zeros(27), np.where(np.arange(27) == 6, -1, 1), "weights must be 0 or more and finite: column 6"),
            (np.zeros(27), np.where(np.arange(27) == 7, np.nan, 1), "column 7"),
            (np.zeros((1, 27)), np.ones(27), "one row"),
            ("walk", np.ones(27), "query must be numbers"),
        ],
    )
    def test_bad_input_is_named(self, name, query, weights, says):
        engine, _ = self.make(name)
        for kind in (np.float32, np.float64):  # with and without the fast path
            with pytest.raises(MmRosError, match=says):
                engine.search(query if isinstance(query, str) else query.astype(kind), weights.astype(kind))

    def test_an_empty_mask_is_named(self, name):
        engine, features = self.make(name)
        for _ in range(2):  # the answer is remembered
            with pytest.raises(MmRosError, match="mask is empty: no frame has"):
                engine.search(features[0], np.ones(27, np.float32), mask=Mask(all_of=1 << 40))
            nothing_better = engine.search(features[0], np.ones(27, np.float32), bound=0.0, mask=Mask())
            assert nothing_better[0] == -1
        with pytest.raises(MmRosError, match="bound"):
            engine.search(features[0], np.ones(27, np.float32), bound=np.nan)

    def test_double_precision_and_lists_are_accepted(self, name):
        engine, features = self.make(name)
        assert engine.search(features[3].tolist(), [1] * 27) == engine.search(features[3], np.ones(27, np.float32))


def test_contradictory_masks_are_refused():
    with pytest.raises(MmRosError, match="mask is empty"):
        Mask(all_of=5, none_of=4)
    with pytest.raises(MmRosError, match="mask is empty"):
        Mask(any_of=6, none_of=7)
    with pytest.raises(MmRosError, match="64 bits"):
        Mask(any_of=-1)


def test_bad_databases_are_refused():
    features = smooth_motion(30)
    with pytest.raises(MmRosError, match=r"engine 'kd' does not exist\. Engines: tree"):
        make_engine("kd", features, [0], [30])
    with pytest.raises(MmRosError, match="float32"):
        make_engine("tree", features.astype(np.float64), [0], [30])
    with pytest.raises(MmRosError, match="clip ranges"):
        make_engine("tree", features, [0], [31])
    with pytest.raises(MmRosError, match="frame 3, column 1 is nan"):
        make_engine(
            "tree", np.where(np.arange(810).reshape(30, 27) == 82, np.nan, features).astype(np.float32), [0], [30]
        )


def test_the_index_is_small():
    features, starts, stops, tags, excluded = make_world(20_000)
    assert make_engine("tree", features, starts, stops, tags, excluded).memory_bytes < 1.3 * features.nbytes


@pytest.mark.parametrize(
    ("way", "switches"),
    [
        ("plain twins", {"NUMBA_DISABLE_JIT": "1"}),
        ("bounds checks", {"NUMBA_BOUNDSCHECK": "1"}),
        ("any processor", {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}),  # no AVX
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_in_other_ways_of_running(way, switches):
    queries = 1000
    # Kernels that are compiled in another way need a folder of their own, which the next run finds again.
    kernels = writable_root() / "kernels" / f"{kernels_key()}-{way.replace(' ', '-')}"
    environment = os.environ | switches | {"NUMBA_CACHE_DIR": str(kernels)}
    script = os.path.join(os.path.dirname(__file__), "search_reduced.py")
    done = subprocess.run(
        [sys.executable, script, str(queries)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "agreed" in done.stdout
