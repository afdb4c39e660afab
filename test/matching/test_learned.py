"""The learned engine in the matcher, with exact stand-ins for the networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from toys import desired, toy_database

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import J, default_skeleton
from mm_ros.matching.band_choice import BandChoice
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.engines.conditions import condition_of
from mm_ros.matching.engines.learned import (
    LearnedSource,
    check_model,
    head_height,
    share_of,
    weighted_distance,
)
from mm_ros.matching.engines.source import SearchRequest
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import rotations as rot
from mm_ros.search import Mask, make_engine

DATABASE = toy_database(3.0)
SETTINGS = MatcherSettings(engine="learned", tempo=0.0)


class Perfect:
    """Networks without error: a state is the features and, as the only latent number, the row."""

    def __init__(self, database=DATABASE):
        self.digest = database
        self.weights = database.layout.column_weights()
        steps = np.zeros((len(database), 3), np.float32)
        steps[:, :2] = database.velocities[:, 0, :2]
        steps[:, 2] = database.angular_velocities[:, 0, 2]
        self.codes = pc.encode(database.positions, database.rotations, steps, database.contacts)
        self.codes[:, pc.CONTACTS] *= 5.0  # a network's log odds
        self.engine = make_engine(
            "brute", database.features, database.range_starts, database.range_stops, database.tags
        )  # fmt: skip
        self.asked: list[np.ndarray] = []

    def _state(self, row):
        return np.append(self.digest.features[row], np.float32(row)).astype(np.float32)

    def project(self, query_and_condition):
        self.asked.append(query_and_condition)
        width, tags = self.digest.layout.size, len(self.digest.tag_names)
        bits = query_and_condition[width:].reshape(3, tags) @ (1 << np.arange(tags))
        mask = Mask(*(int(b) for b in bits))
        query = query_and_condition[:width].astype(np.float32)
        return self._state(self.engine.search(query, self.weights, mask=mask)[0])

    def pose(self, state):
        return self.codes[int(state[-1])]

    def step(self, state):
        row = int(state[-1])
        clip = self.digest.clip_of(row)
        row = min(row + 1, int(self.digest.range_stops[clip]) - 1)
        return self._state(row), self.codes[row]


def make(networks=None, **changes):
    return MatcherStage(SETTINGS.with_values(**changes), DATABASE, learned=networks or Perfect())


def walk(stage, seconds=3.0, speed=1.2, height=1.0, rate=60.0, **more):
    out = []
    for i in range(round(seconds * rate)):
        t = i / rate
        out.append(stage.step(desired(t, (speed * t, 0.0), (speed, 0.0), height=height, **more)))
    return out


class TestPoseCode:
    def test_encode_then_decode_is_the_pose(self):
        rng = np.random.default_rng(1)
        rotations = rot.normalize(rng.normal(size=(50, J, 4)))
        positions = np.tile(default_skeleton().offsets, (50, 1, 1)) + 0.0
        positions[:, 1] = rng.normal(size=(50, 3))
        codes = pc.encode(positions, rotations, np.zeros((50, 3)), np.ones((50, 2)))
        for k in range(50):
            p, q = np.zeros((J, 3), np.float32), np.zeros((J, 4), np.float32)
            pc.decode(codes[k], default_skeleton().offsets, p, q)
            np.testing.assert_allclose(p[1:], positions[k, 1:], atol=1e-6)
            same = np.abs((q[1:] * rotations[k, 1:]).sum(-1))
            np.testing.assert_allclose(same, 1, atol=1e-5)
            assert (p[0] == 0).all()
            assert (q[0] == (1, 0, 0, 0)).all()

    def test_numbers_without_a_direction_still_give_rotations(self):
        for x, y in (((0, 0, 0), (0, 0, 0)), ((1, 0, 0), (1, 0, 0)), ((0, 1, 0), (0, -1, 0)), ((0, 0, 1), (0, 0, 1))):
            q = pc.rotation_of(tuple(map(float, x)), tuple(map(float, y)))
            assert math.isclose(sum(v * v for v in q), 1, abs_tol=1e-9)


def test_a_condition_has_a_column_for_each_tag_and_role():
    out = condition_of(Mask(all_of=0b001, any_of=0b110, none_of=0), 3)
    assert out.tolist() == [1, 0, 0, 0, 1, 1, 0, 0, 0]


class TestPlaying:
    def test_any_display_rate_gives_the_same_way(self):
        ways = []
        for rate in (30.0, 60.0, 72.0, 144.0):
            source = LearnedSource(Perfect(), 1.0)
            source._seek(source.networks._state(int(DATABASE.range_starts[5])))
            x = y = yaw = 0.0
            for _ in range(round(rate)):
                dx, dy, turn = source.advance(1 / rate)
                x, y = x + math.cos(yaw) * dx - math.sin(yaw) * dy, y + math.sin(yaw) * dx + math.cos(yaw) * dy
                yaw += turn
            ways.append((x, y, yaw))
        np.testing.assert_allclose(ways, np.tile(ways[0], (4, 1)), atol=2e-3)

    def test_poses_between_two_frames_are_between_them(self):
        source = LearnedSource(Perfect(), 1.0)
        source._seek(source.networks._state(20))
        first = source.pose()
        source.advance(0.5 / 60)
        middle = source.pose()
        source.advance(0.5 / 60)
        last = source.pose()
        np.testing.assert_allclose(middle[0], (first[0] + last[0]) / 2, atol=1e-6)
        same = np.abs((last[1][1:] * DATABASE.rotations[21, 1:]).sum(-1))
        np.testing.assert_allclose(same, 1, atol=1e-5)

    def test_a_larger_user_takes_longer_steps(self):
        small, large = LearnedSource(Perfect(), 1.0), LearnedSource(Perfect(), 1.5)
        for s in (small, large):
            s._seek(s.networks._state(int(DATABASE.range_starts[7])))
        np.testing.assert_allclose(large.advance(0.1)[:2], 1.5 * np.array(small.advance(0.1)[:2]), atol=1e-6)
        np.testing.assert_allclose(large.pose()[0][1], 1.5 * small.pose()[0][1], atol=1e-5)


class TestMatcher:
    def test_follows_the_desired_trajectory(self):
        stage = make()
        poses = [p for p, _ in walk(stage)]
        assert abs(poses[-1].root[0] - 1.2 * (3 - 1 / 60)) < 0.1
        assert {m.engine for _, m in walk(make(), 0.5)} == {"learned"}

    def test_segment_counts_jumps_and_starts_at_one(self):
        segments = [p.segment for p, _ in walk(make())]
        assert segments[0] == 1
        assert (np.diff(segments) >= 0).all()

    def test_the_height_band_is_a_condition(self):
        networks = Perfect()
        stage = make(networks)
        crouched = walk(stage, 1.0, height=0.5)
        bands = {m.band for _, m in crouched}
        assert bands == {"crouch"}
        bit = DATABASE.tag_names.index("band_crouch")
        assert networks.asked[-1][DATABASE.layout.size + bit] == 1
        hips = crouched[-1][0].positions[1, 2]
        assert hips < 0.6

    def test_a_change_of_tags_is_answered_at_once(self):
        stage = make()
        walk(stage, 0.5)
        before = stage.segment
        stage.settings = stage.settings.with_values(tags="fast")
        _, match = stage.step(desired(0.5, (0.6, 0.0), (1.2, 0.0)))
        assert match.reason == "tags"
        assert stage.segment == before + 1

    def test_contacts_are_of_the_frame_that_plays(self):
        seen = np.array([p.contacts for p, _ in walk(make(), 3.0)])
        assert seen.any(0).all()
        assert not seen.all(0).any()

    def test_a_foot_is_held_when_it_surely_stands_and_until_it_is_doubtful(self):
        source, held = LearnedSource(Perfect(), 1.0), []
        for log_odds in (0.5, 1.5, 2.5, 1.5, 0.5, 1.5):
            for code in source._codes:
                code[pc.CONTACTS] = log_odds
            held.append(bool(source.contacts().all()))
        assert held == [False, False, True, True, False, False]


class TestWeights:
    """The projector is trained for one set of weights; for others it runs again."""

    def questions(self):
        rng, layout = np.random.default_rng(4), DATABASE.layout
        ahead = np.concatenate(
            [np.arange(layout.size)[layout.offsets[f.name]] for f in layout.features if f.kind.startswith("trajectory")]
        )
        queries = DATABASE.features[rng.integers(len(DATABASE), size=60)].copy()
        queries[:, ahead] = DATABASE.features[rng.integers(len(DATABASE), size=60)][:, ahead]
        return queries, ahead

    def answers(self, **masters):
        """Costs of the source's, the single and the exact answers under these weights, and of their trajectories."""
        networks = Perfect()
        source, engine = LearnedSource(networks, 1.0), networks.engine
        weights = DATABASE.layout.column_weights(None, **masters)
        queries, ahead = self.questions()
        out = []
        for q in queries:
            single = networks.project(np.append(q, np.zeros(9)).astype(np.float32))
            answer = source.find(SearchRequest(q, weights, Mask(), Mask(), False, 0.0, 0.0, 0.0))
            _, exact = engine.search(q, weights)
            off = ((source.features() - q)[ahead] ** 2).sum(), ((single[: len(q)] - q)[ahead] ** 2).sum()
            out.append((answer.cost, weighted_distance(weights, q, single), exact, *off))
        return np.array(out).T

    @pytest.mark.parametrize("masters", [{"responsiveness": 8.0}, {"quality": 8.0}])
    def test_answers_are_nearer_under_the_weights_that_are_asked_for(self, masters):
        cost, single, exact, *_ = self.answers(**masters)
        assert (cost <= single + 1e-4).all()
        assert (cost >= exact - 1e-3).all()
        assert np.mean(cost - exact) < 0.5 * np.mean(single - exact)

    def test_responsiveness_brings_the_trajectory_nearer(self):
        *_, found, single = self.answers(responsiveness=8.0)
        assert found.mean() < 0.9 * single.mean()

    def test_as_trained_it_is_asked_once(self):
        networks = Perfect()
        source = LearnedSource(networks, 1.0)
        networks.asked.clear()
        source.find(SearchRequest(DATABASE.features[40], 3 * networks.weights, Mask(), Mask(), False, 0.0, 0.0, 0.0))
        assert len(networks.asked) == 1

    def test_weights_of_zero_are_weights_too(self):
        share = share_of(np.array([0, 2, 1], np.float32), np.array([1, 1, 0], np.float32))
        np.testing.assert_allclose(share, [0, 1, 1])
        np.testing.assert_allclose(share_of(np.zeros(2, np.float32), np.ones(2, np.float32)), 1)


class TestBand:
    def test_steps_that_left_the_band_are_led_back(self):
        networks = Perfect()
        source = LearnedSource(networks, 1.0)
        upright, crouched = (int(np.flatnonzero(DATABASE.tags & np.uint64(bit))[30]) for bit in (1, 2))
        asked = Mask(all_of=1)
        for start, jumps in ((crouched, True), (upright, False)):
            source._seek(networks._state(start))
            source.mask = asked
            query = source.features()
            weights = np.full(len(query), 1e-3, np.float32)  # so small that costs alone cause no jump
            answer = source.find(
                SearchRequest(query, weights, asked, Mask(), True, 0.0, 1.0, 0.0, heights=(0.9, math.inf))
            )
            assert answer.jumped is jumps
        assert head_height(source._joints[0][0], source._joints[1][0]) > 0.9 * DATABASE.skeleton.head_height

    def test_heights_of_bands_lie_between_their_borders(self):
        bands = BandChoice(DATABASE)
        low, high = (bands.heights(name) for name in bands.names)
        assert low[0] == -math.inf
        assert high[1] == math.inf
        assert low[1] == high[0] == bands.borders[0]


class TestSwitching:
    def test_between_search_and_networks_while_running(self):
        stage = MatcherStage(MatcherSettings(), DATABASE, learned=Perfect())
        walk(stage, 0.5)
        for engine in ("learned", "search", "learned"):
            before = stage.segment
            stage.settings = stage.settings.with_values(engine=engine)
            t = 0.5 + 0.01 * stage.segment
            pose, match = stage.step(desired(t, (1.2 * t, 0.0), (1.2, 0.0)))
            assert (match.engine, match.reason) == (engine, "engine")
            assert pose.segment == before + 1  # the postprocessor blends

    def test_another_model_is_the_reason(self):
        stage = make()
        walk(stage, 0.5)
        stage.change(stage.settings, DATABASE, Perfect())
        assert stage.step(desired(0.6, (0.72, 0.0), (1.2, 0.0)))[1].reason == "model"

    def test_without_a_model_it_is_refused_and_nothing_changes(self):
        stage = MatcherStage(MatcherSettings(), DATABASE)
        walk(stage, 0.2)
        with pytest.raises(MmRosError, match="needs a model"):
            stage.settings = stage.settings.with_values(engine="learned")
        assert stage.settings.engine == "search"
        assert stage.step(desired(0.3, (0.36, 0.0), (1.2, 0.0)))[1].engine == "search"


class TestRefusals:
    def test_another_skeleton(self):
        from dataclasses import replace

        other = replace(DATABASE, skeleton=DATABASE.skeleton.scaled(1.1))
        with pytest.raises(MmRosError, match=r"learned model has skeleton \w+, the database \w+"):
            check_model(Perfect(), other)

    def test_another_layout(self):
        from dataclasses import replace

        from mm_ros.motion.features import FeatureLayout

        fewer = FeatureLayout(DATABASE.layout.features[:-1])
        first = slice(fewer.size)
        other = replace(
            DATABASE, layout=fewer, features=DATABASE.features[:, first],
            feature_mean=DATABASE.feature_mean[first], feature_std=DATABASE.feature_std[first],
        )  # fmt: skip
        with pytest.raises(MmRosError, match="feature layout"):
            check_model(Perfect(), other)

    def test_other_tags(self):
        from dataclasses import replace

        with pytest.raises(MmRosError, match="has the tags"):
            check_model(Perfect(), replace(DATABASE, tag_names=("a", "b", "c")))
