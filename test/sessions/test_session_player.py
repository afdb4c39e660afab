"""Playback: rate, start, pause, loop, seek, new stamps, new epochs. The test sets the time."""

import math

import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import TRACKED, TrackerFrame
from mm_ros.sessions.bag import BagMessage
from mm_ros.sessions.definitions import typestore
from mm_ros.sessions.messages import time_ns, trackers_to_bag
from mm_ros.sessions.player import Player, Rewriter

KIND = "mm_ros/msg/TrackerArray"
T0 = 1_700_000_000_000_000_000


def message(i, epoch=0):
    frame = TrackerFrame(T0 + i * 10_000_000 - 1_000_000, epoch)
    frame.state[:3] = TRACKED
    frame.velocities[:3] = 1.0
    frame.sampled_ns[:3] = frame.stamp_ns - 2_000_000
    data = bytes(typestore().serialize_cdr(trackers_to_bag(frame), KIND))
    return BagMessage("/avatar/trackers", KIND, T0 + i * 10_000_000, data)


MESSAGES = [message(i) for i in range(101)]  # one second


def played(player, until, now=100.0, step=0.0025):
    out = []
    while now < until:
        while (due := player.take(now)) is not None:
            out.append((now, MESSAGES.index(due.message), due.run))
        now += step
    return out


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0])
def test_messages_come_when_they_are_due(rate):
    player = Player(MESSAGES, rate)
    player.begin(100.0)
    for now, i, _ in played(player, 103.0):
        assert 0 <= now - (100 + i * 0.01 / rate) < 0.0026
    assert player.ended and player.wait_s(103.0) == math.inf


def test_start_in_the_middle():
    player = Player(MESSAGES, start_s=0.5)
    player.begin(100.0)
    heard = played(player, 100.999 if player.loop else 101.0)
    assert heard[0][:2] == (100.0, 50) and len(heard) == 51


def test_a_pause_moves_the_rest():
    player = Player(MESSAGES)
    player.begin(100.0)
    first = played(player, 100.3)
    player.pause(100.3)
    assert played(player, 105.0, 100.3) == [] and player.wait_s(104.0) == math.inf
    assert player.position_ns(104.0) == T0 + 300_000_000
    player.resume(105.0)
    rest = played(player, 106.0, 105.0)
    assert [i for _, i, _ in first + rest] == list(range(101))
    assert rest[-1][0] == pytest.approx(105.7, abs=0.006)


def test_a_loop_begins_again_as_another_run():
    player = Player(MESSAGES, loop=True, start_s=0.9, rest_s=0.5)
    player.begin(100.0)
    heard = played(player, 100.999 if player.loop else 101.0)
    assert [(i, run) for _, i, run in heard] == [(i, 0) for i in range(90, 101)] + [(i, 1) for i in range(40)]
    assert not player.ended


def test_seeking_forth_and_back_is_another_run():
    player = Player(MESSAGES)
    player.begin(100.0)
    played(player, 100.2)
    player.seek(0.8, 100.2)
    assert played(player, 100.25, 100.2)[0][1:] == (80, 1)
    player.pause(100.3)
    player.seek(0.1, 100.4)
    assert player.paused and player.position_ns(110.0) == T0 + 100_000_000
    player.resume(110.0)
    assert played(player, 110.05, 110.0)[0][1:] == (10, 2)


def test_mistakes_are_sentences():
    with pytest.raises(MmRosError, match=r"0 to 1\.0 s"):
        Player(MESSAGES, start_s=3)
    with pytest.raises(MmRosError, match="rate"):
        Player(MESSAGES, rate=0)
    with pytest.raises(MmRosError, match="nothing"):
        Player([])


def decode(data):
    return typestore().deserialize_cdr(data, KIND)


def test_first_run_with_its_own_stamps_is_byte_for_byte():
    assert Rewriter(MESSAGES, 1.0).rewritten(MESSAGES[3], 0, None) == MESSAGES[3].data


def test_each_run_has_epochs_of_its_own():
    messages = [message(0, 0), message(1, 4)]
    rewriter = Rewriter(messages, 1.0)
    epochs = [decode(rewriter.rewritten(m, run, None)).epoch for run in range(3) for m in messages]
    assert epochs == [0, 4, 5, 9, 10, 14]


def test_new_stamps_keep_their_distances():
    new_ns = 5_000_000_000_000
    m = decode(Rewriter(MESSAGES, 2.0).rewritten(MESSAGES[7], 0, (T0, new_ns)))
    assert time_ns(m.header.stamp) == new_ns + 34_500_000  # 69 ms after T0, at double speed
    assert time_ns(m.header.stamp) - time_ns(m.trackers[0].sampled) == 1_000_000
    assert m.trackers[0].twist.linear.x == 2.0  # twice as fast


def decoded(data):
    return typestore().deserialize_cdr(data, KIND)


@pytest.mark.parametrize("present", [None, (T0, T0)])
def test_a_session_of_another_world_frame_gets_its_name_and_keeps_its_numbers(present):
    kept, renamed = (Rewriter(MESSAGES, 1.0, frame).rewritten(MESSAGES[3], 0, present) for frame in ("", "odom"))
    assert (decoded(kept).header.frame_id, decoded(renamed).header.frame_id) == ("map", "odom")
    assert decoded(kept).trackers == decoded(renamed).trackers
    assert Rewriter(MESSAGES, 1.0).rewritten(MESSAGES[3], 0, None) is MESSAGES[3].data
