"""The prediction error, for a body that walks straight at 1 m/s with a headset 10 cm in front of its hips."""

from types import SimpleNamespace

import numpy as np
import pytest

from mm_ros.evaluation import look_ahead
from mm_ros.motion.features import HORIZON_S

DT = 1 / 60


def world(seconds=4.0, predicted_speed=1.0, speed=1.0):
    times = np.arange(round(seconds * 90)) / 90
    hips = np.stack([speed * np.arange(round(seconds / DT)) * DT, 0 * np.arange(round(seconds / DT))], -1)
    position = np.stack([speed * times, 0 * times], -1)
    ahead = position[:, None] + predicted_speed * np.array(HORIZON_S)[None, :, None] * [1.0, 0.0]
    result = SimpleNamespace(
        desired_position=position, desired_ahead=ahead, desired_times=np.array(HORIZON_S, np.float32)
    )
    head, velocity = np.zeros((len(times), 1, 3)), np.zeros((len(times), 1, 3))
    head[:, 0, 0], velocity[:, 0, 0] = position[:, 0] + 0.1, speed
    return result, SimpleNamespace(positions=head, velocities=velocity), times, hips


def test_errors_are_to_where_the_hips_will_be():
    out = look_ahead.values(*world(predicted_speed=0.8), DT)
    for seconds, error, raw in zip(HORIZON_S, look_ahead.ERRORS, look_ahead.RAW_ERRORS, strict=True):
        assert out[error] == pytest.approx(0.2 * seconds, abs=1e-6)
        assert out[raw] == pytest.approx(0.1, abs=1e-6)
        assert len(out[error]) < 4 * 90 - 85 * seconds  # only samples whose future is in the clip


def test_between_the_layouts_times_on_a_line():
    result = world()[0]
    assert look_ahead.predicted_position(result, 0.5)[:, 0] == pytest.approx(result.desired_position[:, 0] + 0.5)


def test_standing_is_staying_within_5_cm_for_a_second_either_way():
    t = np.arange(600) * DT
    hips = np.stack([np.where(t < 6, 0.02 * np.sin(t), t - 6), 0 * t], -1)
    still = look_ahead.standing(hips, DT)
    assert still[60:300].all()
    assert not still[:60].any() and not still[310:].any()


def test_a_walking_body_does_not_stand():
    assert len(look_ahead.values(*world(), DT)[look_ahead.STANDING]) == 0
    assert len(look_ahead.values(*world(speed=0.0, predicted_speed=0.0), DT)[look_ahead.STANDING]) > 100
