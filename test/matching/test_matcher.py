import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from toys import desired, toy_database

from mm_ros.base.errors import MmRosError
from mm_ros.matching.engines.source import SearchRequest
from mm_ros.matching.fitted import BAND_GRACE_S
from mm_ros.matching.matcher import MatcherSettings, MatcherStage, parse_weights, tag_mask
from mm_ros.matching.query import QueryBuilder
from mm_ros.matching.tempo import desired_tempo
from mm_ros.motion.features import Feature, FeatureLayout, default_layout
from mm_ros.search import Mask

RATE = 90


@pytest.fixture(scope="module")
def database():
    return toy_database()


def stage(database, scale: float = 1.0, **settings) -> MatcherStage:
    return MatcherStage(MatcherSettings(**settings), database, scale)


def play(matcher: MatcherStage, seconds: float, desired_at, start: float = 0.0, rate: float = RATE):
    """`desired_at(t)` → keyword arguments of `desired`."""
    return [matcher.step(desired(start + i / rate, **desired_at(i / rate))) for i in range(round(seconds * rate))]


def standing(_t: float) -> dict:
    return {}


def walking(t: float) -> dict:
    return {"position": (1.2 * t, 0.0), "velocity": (1.2, 0.0)}


def clips(results) -> list[str]:
    return [m.clip for _, m in results]


def test_a_walker_gets_the_walk_and_a_stander_stands(database):
    assert clips(play(stage(database), 1, walking))[-1] == "upright_1.2_0"
    assert clips(play(stage(database), 1, standing))[-1] == "upright_0_0"


def test_starts_at_the_desired_position(database):
    pose, match = stage(database).step(desired(5.0, position=(3.0, -2.0), yaw=1.0))
    assert pose.root[:3] == pytest.approx([3, -2, 0])
    assert 2 * math.atan2(pose.root[6], pose.root[3]) == pytest.approx(1.0)
    assert match.reason == "start" and match.continue_cost == math.inf


def test_follows_a_start_and_a_stop_within_the_accuracy(database):
    def desired_at(t):
        way = 1.2 * min(max(t - 1, 0), 2)
        return {"position": (way, 0.0), "velocity": (1.2 * (1 < t < 3), 0.0)}

    matcher = stage(database, position_accuracy=0.3)
    results = play(matcher, 5, desired_at)
    errors = [np.hypot(p.root[0] - desired_at(i / RATE)["position"][0], p.root[1]) for i, (p, _) in enumerate(results)]
    assert max(errors) <= 0.3 + 1e-9
    assert np.mean(errors) < 0.12
    speed = np.diff([p.root[0] for p, _ in results]) * RATE
    assert np.abs(speed[-45:]).max() < 0.05


def test_searches_every_interval_and_at_once_on_an_abrupt_change(database):
    matcher = stage(database)
    reasons = [m.reason for _, m in play(matcher, 1, standing)]
    assert reasons[0] == "start"
    assert set(reasons[1:]) == {"", "interval"}
    assert sum(r == "interval" for r in reasons) in (9, 10, 11)
    _, match = matcher.step(desired(1.0, velocity=(1.2, 0)))
    assert match.searched and match.reason == "abrupt"


def test_abrupt_changes_search_no_more_often_than_their_interval(database):
    def zigzag(t: float) -> dict:
        return {"velocity": (1.2, 0) if round(t * RATE) % 2 else (-1.2, 0)}

    for interval, expected in ((0.0, RATE - 1), (0.2, 4)):
        matcher = stage(database, search_interval=10.0, abrupt_interval=interval)
        reasons = [m.reason for _, m in play(matcher, 1, zigzag)]
        assert reasons.count("abrupt") == pytest.approx(expected, abs=1), interval


def test_continues_unless_another_place_is_really_cheaper(database):
    results = play(stage(database), 3, walking)
    assert len({p.segment for p, _ in results}) <= 3
    for _, m in results:
        if m.searched and m.reason == "interval":
            assert m.cost <= m.continue_cost


def test_a_jump_is_not_to_a_neighbour(database):
    results = play(stage(database, margin=0.0), 4, lambda t: walking(t) | {"yaw": 0.4 * math.sin(3 * t)})
    for (_, a), (_, b) in itertools.pairwise(results):
        if b.clip == a.clip and b.frame != a.frame:
            assert abs(b.frame - a.frame) < 3 or abs(b.frame - a.frame) >= 0.3 * database.rate - 1


def test_the_head_height_chooses_the_band_with_hysteresis(database):
    matcher = stage(database)
    play(matcher, 0.5, standing)
    border = matcher.bands.borders[0]
    _, a = matcher.step(desired(0.5, height=border - 0.01))
    assert a.band == "upright" and a.reason != "band"
    _, b = matcher.step(desired(0.52, height=border - 0.03))
    assert b.band == "crouch" and b.reason == "band" and b.clip.startswith("crouch")
    _, c = matcher.step(desired(0.54, height=border + 0.01))
    assert c.band == "crouch"


def test_a_tag_query_acts_at_once_and_is_kept(database):
    matcher = stage(database)
    play(matcher, 0.5, standing)
    matcher.settings = MatcherSettings(tags="fast")
    _, match = matcher.step(desired(0.5))
    assert match.reason == "tags" and "2.4" in match.clip
    after = clips(play(matcher, 2, standing, 0.52))
    assert all("2.4" in c for c in after)


def test_the_end_of_a_clip_leads_somewhere(database):
    matcher = stage(database, responsiveness=0.0)
    results = play(matcher, 12, standing)
    assert np.isfinite([p.root for p, _ in results]).all()
    assert all(p.segment == q.segment or m.searched for (p, _), (q, m) in itertools.pairwise(results))


def test_late_trajectories_give_nothing(database):
    matcher = stage(database)
    play(matcher, 0.5, standing)
    assert matcher.step(desired(0.45)) is None


def test_a_new_epoch_resets_and_a_recentre_moves_the_root(database):
    matcher = stage(database)
    play(matcher, 0.5, standing)
    h = math.pi / 4
    moved = np.array([2.0, 0, 0, math.cos(h), 0, 0, math.sin(h)])
    carried, match = matcher.step(desired(0.51, position=(2, 0), yaw=math.pi / 2, epoch=1, new_from_old=moved))
    assert carried.root[:2] == pytest.approx([2, 0], abs=1e-6) and match.reason != "start"
    _, match = matcher.step(desired(0.52, position=(9, 9), epoch=2))
    assert match.reason == "start"


def test_after_a_gap_the_root_returns_to_the_user_without_a_jump(database):
    matcher = stage(database)
    play(matcher, 1, walking)
    play(matcher, 2, lambda t: {"position": (1.2, 0.0), "stale": True}, 1.0)
    back = play(matcher, 1, lambda t: {"position": (3.6 + 1.2 * t, 0.0), "velocity": (1.2, 0.0)}, 3.0)
    roots = np.array([p.root[0] for p, _ in back])
    assert abs(roots[0] - 1.2) < 0.2 and np.diff(roots).max() < 6.5 / RATE
    assert abs(roots[-1] - 4.8) < 0.11


def test_after_a_gap_with_a_recentre_the_root_does_not_jump_either(database):
    matcher = stage(database)
    play(matcher, 1, walking)
    play(matcher, 2, lambda t: {"position": (1.2, 0.0), "stale": True}, 1.0)
    moved = np.array([10.0, 0, 0, 1, 0, 0, 0])
    pose, _ = matcher.step(desired(3.0, position=(13.6, 0.0), epoch=1, new_from_old=moved))
    assert abs(pose.root[0] - 11.2) < 0.2


def test_a_stale_trajectory_ends_in_standing(database):
    matcher = stage(database)
    play(matcher, 1.5, walking)
    here = (1.2 * 1.5, 0.0)
    results = play(matcher, 2, lambda t: {"position": here, "stale": True}, 1.5)
    assert results[-1][0].stale
    assert results[-1][1].clip.split("_")[1] == "0"
    assert abs(results[-1][0].velocities[0, 0]) < 0.05


def test_the_database_can_be_swapped_while_playing(database):
    matcher = stage(database)
    before = play(matcher, 1, walking)[-1][0]
    other = replace(
        database, features=database.features * 2 - 1, feature_std=database.feature_std / 2,
        feature_mean=database.feature_mean + database.feature_std / 2,
        clip_names=tuple(f"other_{n}" for n in database.clip_names),
    )  # fmt: skip
    matcher.change(matcher.settings, other, None)
    pose, match = matcher.step(desired(1.0, **walking(1.0)))
    assert (match.clip, match.reason, match.database) == ("other_upright_1.2_0", "database", other.hash)
    assert other.hash != database.hash
    assert pose.segment == before.segment + 1
    assert match.cost < 3
    assert np.abs(pose.rotations - before.rotations).max() < 0.1


def test_a_database_with_another_layout_takes_over_the_features_that_both_have(database):
    feet = slice(12, 18)  # positions of both feet, whose row is the same in both databases
    layout = FeatureLayout((*database.layout.features[2:4], Feature("mine", "joint_position", "head", weight=2.0)))
    columns = [*range(12, 18), 24, 25, 26]
    other = replace(
        database, layout=layout, features=database.features[:, columns].copy(),
        feature_mean=database.feature_mean[columns], feature_std=2 * database.feature_std[columns], search_arrays={},
    )  # fmt: skip
    matcher = stage(database)
    play(matcher, 1, walking)
    before = matcher.source.features()[feet]
    matcher.change(matcher.settings, other, None)
    np.testing.assert_allclose(matcher._carried, [*before / 2, 0, 0, 0], atol=1e-6)
    results = play(matcher, 1, walking, start=1.0)
    assert all(r is not None for r in results) and matcher.database is other


def test_a_layout_names_the_times_ahead_and_no_others():
    def times(*ahead):
        return FeatureLayout((Feature("a", "trajectory_position", times=ahead),)).trajectory_times

    assert times(-0.5, 0.0, 0.8, 0.2) == (0.2, 0.8)
    assert times(-0.5, 0.0) == default_layout().trajectory_times
    hips = FeatureLayout((Feature("a", "joint_position", "hips"),))
    assert hips.trajectory_times == default_layout().trajectory_times


def test_a_larger_user_takes_longer_steps_of_the_same_walk(database):
    matcher = stage(database, scale=1.5)
    results = play(matcher, 2, lambda t: {"position": (1.8 * t, 0), "velocity": (1.8, 0)})
    assert results[-1][1].clip == "upright_1.2_0"
    assert results[-1][0].root[0] == pytest.approx(3.6, abs=0.1)
    assert results[-1][0].positions[1, 2] == pytest.approx(0.95 * 1.5, abs=0.01)


def test_72_and_90_hz_play_the_same_motion(database):
    ends = [play(stage(database), 3, walking, rate=r)[-1][0].root[0] for r in (60, 72, 90)]
    assert np.ptp(ends) < 0.03


def test_master_knobs_and_weights_change_the_columns(database):
    matcher = stage(database, quality=2.0, weights="left_foot_position=3, trajectory_position=0.5")
    layout = database.layout
    assert matcher.weights[layout.offsets["left_foot_position"]] == pytest.approx(6)
    assert matcher.weights[layout.offsets["trajectory_position"]] == pytest.approx(0.5)
    matcher.settings = MatcherSettings(responsiveness=4.0)
    assert matcher.weights[layout.offsets["trajectory_direction"]] == pytest.approx(16)  # the layout's own is 4


def test_query_of_a_frames_own_future_is_that_frame(database):
    builder = QueryBuilder(database, 1.0)
    frame = int(database.range_starts[database.clip_names.index("upright_1.2_1")]) + 30
    raw = database.features[frame] * database.feature_std + database.feature_mean
    w = desired(0.0)
    w.positions = raw[:6].reshape(3, 2).astype(np.float32)
    w.directions = raw[6:12].reshape(3, 2).astype(np.float32)
    query = builder.query(w, np.zeros(3), database.features[frame])
    assert query == pytest.approx(database.features[frame], abs=1e-4)
    # The query does not change when trajectory and avatar are moved and turned together.
    c, s = math.cos(2.0), math.sin(2.0)
    turn = np.array([[c, -s], [s, c]])
    w.positions = (w.positions @ turn.T + [5, 6]).astype(np.float32)
    w.directions = (w.directions @ turn.T).astype(np.float32)
    again = builder.query(w, np.array([5.0, 6.0, 2.0]), database.features[frame])
    assert again == pytest.approx(query, abs=1e-3)


def test_runners_up_are_there_when_asked(database):
    matcher = stage(database)
    matcher.explain = True
    _, match = matcher.step(desired(0.0))
    assert len(match.runner_up_frames) > 1
    assert (np.diff(match.runner_up_costs) >= 0).all()


def test_invalid_values_are_refused(database):
    with pytest.raises(MmRosError, match="name=value"):
        parse_weights("left_foot_position 3")
    with pytest.raises(MmRosError, match="Features:"):
        stage(database, weights="left_knee=1")
    with pytest.raises(MmRosError, match="Tags:"):
        stage(database, tags="dance")
    with pytest.raises(MmRosError, match="no frame"):
        tag_mask(database, "band_upright & band_crouch")
    with pytest.raises(MmRosError, match="scale"):
        MatcherStage(MatcherSettings(), database, 0.0)
    with pytest.raises(MmRosError, match="margin"):
        MatcherSettings(margin=-1.0)


def test_a_trajectory_that_is_not_finite_is_refused_and_leaves_no_trace(database):
    matcher = stage(database)
    play(matcher, 0.5, standing)
    with pytest.raises(MmRosError, match="finite"):
        matcher.step(desired(0.5, position=(math.nan, 0.0)))
    pose, _ = matcher.step(desired(0.51))
    assert np.isfinite(pose.root).all()


def test_memory_does_not_grow(database):
    import tracemalloc

    matcher = stage(database)
    play(matcher, 1, walking)
    tracemalloc.start()
    play(matcher, 1, walking, 1.0)
    before = tracemalloc.take_snapshot()
    for k in range(4):
        play(matcher, 1, walking, 2.0 + k)
    growth = sum(s.size_diff for s in tracemalloc.take_snapshot().compare_to(before, "filename") if s.size_diff > 0)
    tracemalloc.stop()
    assert growth < 200_000


def test_motion_that_leaves_its_band_by_itself_plays_on_for_a_step(database):
    """Bands with little motion consist of short fragments; an immediate jump back to one would freeze the body."""
    stage = MatcherStage(MatcherSettings(), database)
    stage.step(desired(0.0, velocity=(1.2, 0.0)))
    ask = SearchRequest(
        stage.source.features(), stage.weights, Mask(), Mask(), True, 0.02, 1.0, 0.3, False, BAND_GRACE_S
    )
    crouch = replace(ask, mask=Mask(all_of=1 << database.tag_names.index("band_crouch")))
    assert not stage.source.find(crouch).jumped
    stage.source.advance(BAND_GRACE_S + 0.01)
    assert stage.source.find(crouch).jumped
    stage.source.find(ask)
    assert stage.source.find(replace(crouch, band_grace_s=0.0)).jumped  # a change of the user's height acts at once


def test_motion_as_high_as_its_band_that_is_none_of_it_does_not_play_on(database):
    """The head of a user who bends over on tiptoe is as high as that of an upright user."""
    stage = MatcherStage(MatcherSettings(), database)
    stage.step(desired(0.0, velocity=(1.2, 0.0)))
    ratio = float(database.head_height_ratio[stage.source.player.nearest])
    crouch = Mask(all_of=1 << database.tag_names.index("band_crouch"))
    ask = SearchRequest(
        stage.source.features(), stage.weights, crouch, Mask(), True, 0.02, 1.0, 0.3, False, BAND_GRACE_S, ratio,
        (ratio - 0.005, ratio + 0.1),
    )  # fmt: skip
    assert not stage.source.find(ask).jumped  # allowed near the border of the band
    assert stage.source.find(replace(ask, heights=(ratio - 0.05, ratio + 0.05))).jumped


def test_a_turn_is_played_faster_when_the_user_is_ahead_and_slower_when_behind():
    own, root = np.array([0.0, 0.0, -1.0]), np.zeros(3)
    assert desired_tempo(own, root, desired(0.0, yaw=-0.3), 0.15) == 1.15
    assert desired_tempo(own, root, desired(0.0, yaw=0.3), 0.15) == 0.85
    assert desired_tempo(own, root, desired(0.0), 0.15) == 1.0


def test_a_walk_is_played_faster_when_the_user_is_ahead_wherever_it_leads():
    own = np.array([0.0, 1.0, 0.0])  # to the left; in the room this is backwards
    for x, tempo in ((-0.04, 1.1), (0.04, 0.9), (-1.0, 1.15)):
        found = desired_tempo(own, np.array([0.0, 0.0, math.pi / 2]), desired(0.0, (x, 0.0)), 0.15)
        assert abs(found - tempo) < 1e-9


def test_a_steered_character_has_limits_and_weights_of_its_own(database):
    matcher, own = stage(database), MatcherSettings()
    matcher.step(replace(desired(1.0), source="trackers"))
    usual = matcher.weights
    assert matcher.control.settings.position_accuracy == own.position_accuracy
    matcher.step(replace(desired(1.1), source="joystick"))
    assert matcher.control.settings.position_accuracy == own.steered_position_accuracy
    assert (matcher.weights / usual).max() == pytest.approx(own.steered_quality / own.quality)
    with pytest.raises(MmRosError, match="not in the layout"):
        matcher.settings = MatcherSettings(steered_weights="nose=1")
    matcher.step(replace(desired(1.2), source="trackers"))
    assert (matcher.weights == usual).all()
