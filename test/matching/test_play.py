import numpy as np
import pytest
from toys import toy_database

from mm_ros.body import skeleton as sk
from mm_ros.matching.player import Player
from mm_ros.maths import rotations as rot


@pytest.fixture(scope="module")
def database():
    return toy_database()


def clip_start(database, name: str) -> int:
    return int(database.range_starts[database.clip_names.index(name)])


def travelled(player: Player, rate: float, seconds: float) -> np.ndarray:
    x, y, yaw, path = 0.0, 0.0, 0.0, []
    for _ in range(round(seconds * rate)):
        dx, dy, turn = player.advance(1 / rate)
        x, y = x + np.cos(yaw) * dx - np.sin(yaw) * dy, y + np.sin(yaw) * dx + np.cos(yaw) * dy
        yaw += turn
        path.append((x, y, yaw))
    return np.array(path)


@pytest.mark.parametrize("rate", [30, 60, 72, 90, 120])
def test_the_root_arrives_where_the_clip_does_at_any_rate(database, rate):
    player = Player(database, 1.0)
    player.seek(clip_start(database, "upright_1.2_1"))
    end = travelled(player, rate, 2.0)[-1]
    row = player.row
    assert player.time == pytest.approx(2.0, abs=1e-6)
    root = database.positions[row, 0]
    assert end[:2] == pytest.approx(root[:2], abs=2e-2 if player.fraction else 1e-3)
    assert end[2] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("rate", [72, 90])
def test_no_stutter_on_displays_of_other_rates(database, rate):
    """Motion with constant speed in the data has constant speed on the display."""
    player = Player(database, 1.0)
    player.seek(clip_start(database, "upright_1.2_0"))
    speed = np.diff(travelled(player, rate, 2.0)[:, 0]) * rate
    assert np.abs(speed - 1.2).max() < 1e-3


def test_between_two_frames_lies_their_middle(database):
    player = Player(database, 1.0)
    first = clip_start(database, "upright_1.2_1") + 10
    player.seek(first)
    player.advance(0.5 / database.rate)
    positions, rotations, velocities, angular = player.pose()
    for ours, data in ((positions, database.positions), (velocities, database.velocities)):
        assert ours == pytest.approx((data[first] + data[first + 1]) / 2, abs=1e-6)
    assert angular == pytest.approx(
        (database.angular_velocities[first] + database.angular_velocities[first + 1]) / 2, abs=1e-5
    )
    assert np.linalg.norm(rotations, axis=1) == pytest.approx(1, abs=1e-6)
    turn = rot.log(rot.multiply(rot.inverse(database.rotations[first]), rotations))
    whole = rot.log(rot.multiply(rot.inverse(database.rotations[first]), database.rotations[first + 1]))
    assert turn == pytest.approx(whole / 2, abs=1e-4)


def test_the_double_cover_does_not_matter(database):
    from dataclasses import replace

    flipped = database.rotations.copy()
    flipped[::2] *= -1
    player, other = Player(database, 1.0), Player(replace(database, rotations=flipped), 1.0)
    for p in (player, other):
        p.seek(clip_start(database, "upright_2.4_-1") + 3)
        delta = p.advance(0.4 / database.rate)
        assert delta[2] == pytest.approx(-0.4 / 60, abs=1e-5)
    a, b = player.pose()[1], other.pose()[1]
    assert np.abs((a * b).sum(1)) == pytest.approx(1, abs=1e-6)


def test_a_larger_user_walks_with_longer_steps(database):
    player = Player(database, 1.5)
    player.seek(clip_start(database, "upright_1.2_0"))
    assert travelled(player, 90, 1.0)[-1, 0] == pytest.approx(1.8, abs=1e-3)
    assert player.pose()[0][sk.HIPS, 2] == pytest.approx(1.5 * database.positions[player.row, sk.HIPS, 2])


def test_play_stops_at_the_last_frame(database):
    player = Player(database, 1.0)
    player.seek(int(database.range_stops[0]) - 2)
    player.advance(10.0)
    assert player.row == database.range_stops[0] - 1
    assert player.remaining == 0
    assert player.advance(1.0) == (0, 0, 0)
    assert np.isfinite(player.pose()[0]).all()
