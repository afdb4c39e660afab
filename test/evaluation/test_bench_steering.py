"""`mm_ros bench steering` as a command, and its comparison with the database at equal speeds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mm_ros.cli.main import main
from mm_ros.evaluation.benchmarks import steering
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.maths.springs import decay
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database


def test_the_command_writes_a_block_for_each_engine(tmp_path, capsys):
    file = tmp_path / "steering.json"
    words = ["bench", "steering", "--engines", "state_machine", "--rounds", "1", "--keys", "0", "--json", str(file)]
    assert main(words) == 0
    block = json.loads(file.read_text())["engines"]["state_machine"]
    for name in ("turn_45_s", "turn_90_s", "turn_180_s", "stop_s", "pops_per_min", "database_pops_per_min"):
        assert 0.0 <= block[name] < 1e3, name
    assert set(block["path_deviation_m"]) == {"mean", "median", "p95"}
    assert block["skate_ratio"] < 0.2 and block["frames"] > 1000 and block["memory_mb"] > 0
    assert 0.0 <= block["path_speed_error"] <= block["path_speed_error_worst"] < 1.0
    assert "state_machine" in capsys.readouterr().out


def test_fast_gaits_of_the_database_have_more_pops_than_slow_ones():
    own = steering.reference(read_database(default_database_path()))
    assert own.pops_by_speed[:2].max() < 1.0 < own.pops_by_speed[2] < own.pops_by_speed[3]
    assert np.isfinite(own.pops_by_speed).all()


@pytest.mark.parametrize("name", steering.VARIANTS)
def test_a_variant_of_the_paper_searches_and_decays_as_its_table_says(name):
    search, forced, decay_s = steering.VARIANTS[name]
    matcher, post = steering.variant(name, "search")
    assert (matcher.search_interval, matcher.abrupt_interval) == (search, forced)
    if decay_s:
        rate = math.log(100) / decay_s  # the paper's λ; its equations 3.5 to 3.7 are those of our spring
        x, v = decay(1.0, 0.5, post.blend_halflife, 0.02)
        j = 0.5 + rate
        left = math.exp(-rate * 0.02)
        assert (x, v) == pytest.approx((left * (1 + 0.02 * j), left * (0.5 - 0.02 * rate * j)))


def test_a_released_key_stops_the_character_and_it_stays():
    """Turning points of walks to and fro are as sudden as a stop; the layout for this control tells them apart."""
    rider = steering.Rider(read_database(default_database_path(features="steered")), MatcherSettings())
    stops = [s for s in steering.streams(11, 4) if s.kind == "stop"]  # one of them took 1.18 s with the layout "vr"
    for stream in stops:
        ridden = rider.steer(stream)
        assert steering.figures_of(ridden, stream)["stop_s"] <= 0.6
        x = ridden.root[round(stream.change_s * 60) :, 0]
        assert (np.maximum.accumulate(x) - x).max() < 0.12  # m back, to the simulated position
