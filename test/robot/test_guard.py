"""The guard between follower and robot: ramp, clamps, and each fault ends in a smooth stop that latches."""

from itertools import pairwise

import numpy as np
import pytest

from mm_ros.maths import rotations as rot
from mm_ros.robot.guard import (
    HELD,
    LIVE,
    NO_DEADMAN,
    OFF,
    RAMP,
    STOPPING,
    WAITING,
    BaseGuard,
    CommandGuard,
    GuardSettings,
)

NAMES, DT = ("a", "b"), 0.02
SETTINGS = GuardSettings(ramp=2.0, command_speed=2.0, command_acceleration=20.0)


class World:
    """A robot that does what it is commanded, and a follower whose target waves."""

    def __init__(self, settings: GuardSettings = SETTINGS, start: np.ndarray | None = None) -> None:
        self.guard = CommandGuard(NAMES, np.array([-1.0, -1.0]), np.array([1.0, 0.5]), settings, start)
        self.robot, self.now, self.sent = np.array([0.4, -0.9]), 0.0, []
        self.enabled = self.talks = self.feeds = True
        self.lie: np.ndarray | None = None

    def target(self) -> tuple[np.ndarray, np.ndarray]:
        return 0.8 * np.sin([self.now, self.now + 1.0]), 0.8 * np.cos([self.now, self.now + 1.0])

    def run(self, seconds: float) -> list[np.ndarray]:
        out = []
        for _ in range(round(seconds / DT)):
            self.now += DT
            if self.talks:
                self.guard.measure(self.now, self.robot if self.lie is None else self.lie)
            if self.feeds:
                self.heard = self.now
            command = self.guard.step(self.now, self.enabled, *self.target(), self.heard)
            if command is not None:
                self.robot = command.positions
                out.append(command.positions)
        self.sent += out
        return out

    def live(self) -> "World":
        self.enabled = False
        self.run(0.3)
        self.enabled = True
        self.run(4.0)
        assert self.guard.state == LIVE
        return self

    def speeds(self) -> np.ndarray:
        return np.diff(np.array(self.sent), axis=0) / DT


def test_nothing_is_sent_before_the_deadman_was_released_once():
    world = World()
    assert world.run(1.0) == [] and world.guard.state == OFF


def test_the_ramp_starts_at_the_measured_state_and_ends_on_the_target():
    world = World()
    start = world.robot.copy()
    world.live()
    assert world.sent[0] == pytest.approx(start, abs=0.01)
    assert world.sent[-1] == pytest.approx(np.clip(world.target()[0], -1, [1, 0.5]), abs=0.02)


def test_speed_acceleration_and_limits_are_never_exceeded():
    world = World().live()
    world.run(8.0)
    sent = np.array(world.sent)
    assert np.abs(world.speeds()).max() <= 2.0 + 1e-9
    assert np.abs(np.diff(world.speeds(), axis=0)).max() <= 20.0 * DT + 1e-9
    assert (sent <= [1.0 + 1e-9, 0.5 + 1e-9]).all() and (sent >= -1.0 - 1e-9).all()


def test_a_target_that_jumps_is_approached_within_the_limits():
    world = World().live()
    world.target = lambda: (np.array([-0.9, 0.4]), np.zeros(2))
    world.run(3.0)
    assert np.abs(np.diff(world.speeds(), axis=0)).max() <= 20.0 * DT + 1e-9
    assert world.robot == pytest.approx([-0.9, 0.4], abs=1e-3)


def release(world: World) -> None:
    world.enabled = False


def no_pose(world: World) -> None:
    world.feeds = False


def no_state(world: World) -> None:
    world.talks = False


def jump(world: World) -> None:
    world.lie = world.robot + 0.5


def drift(world: World) -> None:
    """The robot does not move any more: its state stays, and the command leaves it."""
    world.lie = world.robot.copy()
    world.target = lambda: (np.array([0.95, -0.9]), np.zeros(2))


def stale(world: World) -> None:
    world.guard.stop("the trackers are stale")


def stall(world: World) -> None:
    world.now += 1.0
    world.talks = True


def test_missing_messages_of_the_deadman_stop_the_robot_and_are_no_release():
    """Otherwise the robot would start again by itself when the messages of a held switch come back."""
    world = World().live()
    world.enabled = None
    world.run(2.0)
    assert world.guard.state == HELD and NO_DEADMAN in world.guard.reason
    world.enabled = True
    assert world.run(1.0) == [] and world.guard.state == HELD
    world.live()


def test_a_release_that_is_too_short_or_interrupted_does_not_start_the_robot():
    """A driver that starts reports for a moment that no button is pressed."""
    for between in ([], [None] * 50, [None], [None] * 50 + [True] * 15):
        world = World().live()
        world.guard.stop("a fault")
        world.run(2.0)
        for world.enabled in [*between, *[False] * 8, None, *[False] * 8, True]:
            assert world.run(DT) == [] and world.guard.state == HELD
        assert world.run(1.0) == [] and "release the deadman" in world.guard.reason


def test_a_robot_without_feedback_starts_again_where_it_stopped():
    world = World(start=np.zeros(2)).live()
    world.enabled = False
    world.run(2.0)
    before = len(world.sent)
    world.live()
    restart = np.array(world.sent[before - 3 :])
    assert np.abs(restart[0]).max() > 0.1  # away from the start pose
    assert np.abs(np.diff(restart, 2, axis=0)).max() <= 20.0 * DT * DT + 1e-9


@pytest.mark.parametrize("state", [WAITING, STOPPING, OFF])
def test_a_press_before_missing_messages_does_not_start_the_robot_after_them(state):
    slow = GuardSettings(ramp=2.0, command_speed=2.0, command_acceleration=0.5)
    world = World(slow).live() if state == STOPPING else World()
    world.talks = state != WAITING  # without the state of the robot, the guard waits
    for world.enabled in [*[False] * 12, state != OFF]:
        world.run(DT)
    assert world.guard.state == state
    world.enabled = None
    world.run(4.0)
    for world.enabled in (True, False, False, True):  # A driver may first report that no button is pressed.
        world.talks = True
        assert world.run(DT) == []
    assert world.run(1.0) == [] and world.guard.state in (OFF, HELD)
    world.live()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (release, "deadman was released"), (no_pose, "no new pose"), (no_state, "no new state"), (jump, "jumped by"),
        (drift, "rad from its command"), (stale, "trackers are stale"), (stall, "stalled for"),
    ],
)  # fmt: skip
def test_each_fault_ends_in_a_smooth_stop_that_latches(fault, reason):
    world = World().live()
    before = len(world.sent)
    fault(world)
    world.run(2.0)
    assert world.guard.state == HELD and reason in world.guard.reason
    assert np.abs(np.diff(world.speeds(), axis=0)).max() <= 20.0 * DT + 1e-9  # smooth, also at the fault
    assert len(world.sent) > before
    assert world.run(1.0) == []  # silent after the hold
    world.talks = world.feeds = world.enabled = True
    world.lie = None
    world.run(1.0)
    assert world.guard.state in (HELD, OFF) or fault is release  # the deadman was not released again
    world.enabled = False
    world.run(0.3)
    world.enabled = True
    first = len(world.sent)
    world.run(0.1)
    assert world.guard.state == RAMP
    assert np.abs(world.sent[first] - world.sent[first - 1]).max() < 0.05  # from where the robot is


def test_a_fault_during_the_ramp_stops_too():
    world = World()
    world.enabled = False
    world.run(0.3)
    world.enabled = True
    world.run(1.0)
    assert world.guard.state == RAMP
    world.enabled = False
    world.run(0.02)
    assert world.guard.state == STOPPING


def test_without_a_robot_state_nothing_starts():
    world = World()
    world.talks = False
    world.enabled = False
    world.run(0.3)
    world.enabled = True
    assert world.run(1.0) == [] and world.guard.state == WAITING and "no state of the robot" in world.guard.reason


def test_a_robot_without_feedback_ramps_from_the_given_pose():
    world = World(start=np.array([0.2, 0.1]))
    world.talks = False
    world.enabled = False
    world.run(0.3)
    world.enabled = True
    world.run(0.1)
    assert world.guard.state == RAMP and world.sent[0] == pytest.approx([0.2, 0.1], abs=0.01)


def test_a_state_that_is_not_finite_stops():
    world = World().live()
    world.guard.measure(world.now, np.array([np.nan, 0.0]))
    world.guard.step(world.now + DT, True, *world.target(), world.now)
    assert world.guard.state == STOPPING


def test_a_robot_whose_joints_have_another_order_is_stopped():
    world = World()
    world.robot = np.array([0.4, 0.4])
    measured = world.guard.measure
    world.guard.measure = lambda now, angles: measured(now, angles[::-1])
    world.guard.settings = SETTINGS.with_values(ramp=1.0)
    world.target = lambda: (np.array([-0.6, 0.45]), np.zeros(2))
    world.enabled = False
    world.run(0.3)
    world.enabled = True
    world.run(4.0)
    assert world.guard.state == HELD and "from its command" in world.guard.reason
    assert np.abs(np.diff(world.speeds(), axis=0)).max() <= 20.0 * DT + 1e-9


def base_at(x: float, yaw: float = 0.0) -> np.ndarray:
    return np.array([x, 0.0, 0.7, *rot.from_yaw(yaw)])


def test_the_base_follows_stops_smoothly_and_starts_again_where_it_stopped():
    guard = BaseGuard(50.0)
    poses = [guard.step(base_at(0.02 * i, 0.01 * i), True) for i in range(100)]
    assert poses[-1][0] == pytest.approx(0.02 * 99, abs=0.15)  # 1 m/s, 0.1 s behind
    assert rot.yaw_of(poses[-1][3:]) == pytest.approx(0.99, abs=0.05)
    poses += [guard.step(base_at(0.02 * i, 0.01 * i), False) for i in range(100, 150)]
    assert poses[-1] == pytest.approx(poses[-2], abs=1e-9)
    # The user has gone elsewhere meanwhile.
    poses += [guard.step(base_at(-5.0 + 0.02 * i, 2.0), True) for i in range(50)]
    places = np.array(poses)[:, :3]
    assert np.abs(np.diff(places, n=2, axis=0)).max() / DT**2 <= 15.0 + 1e-6
    assert np.abs(np.diff(places, axis=0)).max() / DT <= 3.0
    turned = [rot.yaw_of(rot.multiply(b[3:], rot.inverse(a[3:]))) for a, b in pairwise(poses)]
    assert np.abs(turned).max() / DT <= 6.0


def test_a_recentring_of_the_user_does_not_move_the_base():
    guard = BaseGuard(50.0)
    for _ in range(10):
        guard.step(base_at(0.0), True)
    moved = [guard.step(base_at(4.0, 1.5), True) for _ in range(20)]
    assert moved[-1] == pytest.approx(base_at(0.0), abs=1e-9)
    for i in range(100):
        last = guard.step(base_at(4.0 + 0.01 * i, 1.5), True)
    # Along +x of the room, which is −1.5 rad in the frame of the command
    assert np.arctan2(last[1], last[0]) == pytest.approx(-1.5, abs=0.01)
