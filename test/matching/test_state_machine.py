"""The state machine, which is the baseline for the other engines."""

from __future__ import annotations

import numpy as np
import pytest
from toys import desired, toy_database

from mm_ros.base.errors import MmRosError
from mm_ros.matching.engines.state_machine import (
    STATES,
    StateMachineStage,
    _dissimilarities,
    find_loop,
    matcher_stage,
)
from mm_ros.matching.fitted import LOOP_BORDERS, LOOP_HYSTERESIS
from mm_ros.matching.matcher import MatcherSettings

DATABASE = toy_database(6.0)


def drive(stage, speeds, rate=60.0):
    at, out = 0.0, []
    for i, speed in enumerate(speeds):
        out.append(stage.step(desired(i / rate, (at, 0.0), (speed, 0.0))))
        at += speed / rate
    return out


def test_loops_go_ahead_at_their_speed():
    loop = find_loop(DATABASE, 1.2)
    assert abs(loop.speed - 1.2) < 0.1
    seconds = (loop.last - loop.first) / DATABASE.rate
    assert 0.7 <= seconds <= 2.5
    apart = np.abs(DATABASE.features[loop.first] - DATABASE.features[loop.last]).max()
    assert apart < 0.5


def test_of_pieces_with_the_same_speed_the_unusual_posture_is_known():
    upright, crouched = (np.flatnonzero(DATABASE.tags & np.uint64(bit))[::97] for bit in (1, 2))
    dissimilarity = _dissimilarities(DATABASE, np.array([*upright[:9], crouched[4]]), 60)
    assert dissimilarity.argmax() == 9
    assert dissimilarity[9] > 0.1


def test_plays_faster_for_a_user_who_walks_faster_than_its_loop():
    lags = []
    for tempo in (0.0, 0.15):
        told = drive(StateMachineStage(DATABASE, settings=MatcherSettings(tempo=tempo)), [1.35] * 240)
        lags.append(np.mean([1.35 * i / 60 - p.root[0] for i, (p, _) in enumerate(told)][60:]))
    assert lags[1] < 0.8 * lags[0]


def test_states_follow_the_speed_with_hysteresis():
    near = LOOP_BORDERS[0] + LOOP_HYSTERESIS / 2
    speeds = [0.0, near, 1.2, near, 2.8, 0.0]
    stage, states = StateMachineStage(DATABASE), []
    for i, speed in enumerate(np.repeat(speeds, 10).tolist()):
        stage.step(desired(i / 60, (0.0, 0.0), (speed, 0.0)))
        states.append(STATES[stage.state])
    assert [states[i] for i in (5, 15, 25, 35, 45, 55)] == [STATES[k] for k in (0, 0, 1, 1, 2, 0)]


def test_the_root_stays_at_the_desired_position():
    told = drive(StateMachineStage(DATABASE), [1.2] * 240)
    far = [abs(p.root[0] - 1.2 * i / 60) for i, (p, _) in enumerate(told)]
    assert max(far) <= 0.1 + 1e-9


def test_poses_are_continuous_over_a_change_of_state():
    told = drive(StateMachineStage(DATABASE), [0.0] * 30 + [1.2] * 120)
    q = np.stack([p.rotations for p, _ in told])
    dots = np.abs((q[1:] * q[:-1]).sum(-1)).clip(0, 1)
    assert np.rad2deg(2 * np.arccos(dots)).max() < 8


def test_clips_that_are_too_short_are_refused():
    with pytest.raises(MmRosError, match=r"clips of more than 2\.5 s"):
        find_loop(toy_database(1.0), 1.2)


def test_it_is_the_stage_of_its_engine_and_reports_the_current_frame():
    stage = matcher_stage(MatcherSettings(engine="state_machine"), DATABASE, 1.1, run=7)
    pose, match = stage.step(desired(1.0, (0.0, 0.0), (1.2, 0.0)))
    assert (pose.engine, match.engine, pose.run) == ("state_machine", "state_machine", 7)
    assert pose.skeleton == DATABASE.skeleton.scaled(1.1).hash
    assert match.clip == DATABASE.clip_names[match.clip_index] and match.database == DATABASE.hash
    assert not match.searched and match.frame >= 0 and match.tags
    assert stage.step(desired(1.0, (0.0, 0.0), (1.2, 0.0))) is None  # a duplicate


def test_another_user_size_is_live():
    stage = StateMachineStage(DATABASE)
    small = stage.step(desired(0.0, (0.0, 0.0), (0.0, 0.0)))[0]
    stage.set_scale(2.0)
    large = stage.step(desired(0.01, (0.0, 0.0), (0.0, 0.0)))[0]
    assert large.skeleton == DATABASE.skeleton.scaled(2.0).hash
    np.testing.assert_allclose(large.positions[1], 2 * small.positions[1], rtol=0.05)
