import math

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.motion.features import HORIZON_S
from mm_ros.trajectory.joystick import JoystickSettings, JoystickStage


def stage(**settings) -> JoystickStage:
    return JoystickStage(JoystickSettings(**settings), HORIZON_S)


def hold(stick: JoystickStage, seconds: float, move, start: float = 0.0, **more):
    return [stick.step(round((start + i / 90) * 1e9), move, **more) for i in range(round(seconds * 90))]


@pytest.mark.parametrize(("gait", "speed"), [("walk", 1.3), ("jog", 2.5), ("sprint", 4.0)])
def test_a_full_stick_reaches_the_speed_of_the_gait(gait, speed):
    desired = hold(stage(), 3, (1, 0), gait=gait)[-1]
    assert desired.velocity == pytest.approx([speed, 0], abs=1e-2)
    assert desired.source == "joystick"


def test_the_predicted_position_is_reached():
    targets = hold(stage(), 2, (0.5, 0.5))
    assert targets[0].positions[2] == pytest.approx(targets[90].position, abs=1e-5)
    assert targets[0].directions[1] == pytest.approx([math.cos(targets[60].yaw), math.sin(targets[60].yaw)], abs=1e-4)


def test_letting_go_stops_and_the_dead_zone_is_rest():
    stick = stage()
    hold(stick, 2, (1, 0))
    desired = hold(stick, 3, (0.1, 0.05), 2.0)[-1]
    assert np.linalg.norm(desired.velocity) < 1e-3
    assert desired.positions[2] == pytest.approx(desired.position, abs=1e-3)


def test_faces_where_it_goes_unless_it_strafes():
    assert hold(stage(), 2, (0, 1))[-1].yaw == pytest.approx(math.pi / 2, abs=0.01)
    strafing = hold(stage(), 2, (0, 1), strafe=True)[-1]
    assert strafing.yaw == pytest.approx(0)
    assert strafing.velocity[1] > 1.2
    assert hold(stage(), 2, (1, 0), strafe=True, look=(0, -1))[-1].yaw == pytest.approx(-math.pi / 2, abs=0.01)


def test_a_twist_drives_in_the_bodys_axes():
    stick = stage()
    targets = [stick.step_twist(round(i / 90 * 1e9), (1.0, 0.0), math.pi / 2) for i in range(181)]
    assert abs(math.remainder(targets[-1].yaw - math.pi, 2 * math.pi)) < 0.6
    assert np.linalg.norm(targets[-1].velocity) == pytest.approx(1.0, abs=0.1)
    path = np.array([w.position for w in targets])
    assert path[:, 1].max() > 0.8


def test_invalid_values_are_refused():
    with pytest.raises(MmRosError, match="gait"):
        stage().step(0, (0, 0), gait="crawl")
    with pytest.raises(MmRosError, match="finite"):
        stage().step(0, (math.nan, 0))
    with pytest.raises(MmRosError, match="finite"):
        stage().step_twist(0, (1, 2, 3), 0.0)


def test_late_input_gives_nothing():
    stick = stage()
    hold(stick, 0.5, (1, 0))
    assert stick.step(round(0.45e9), (1, 0)) is None
