"""`mm_ros bench steering` as a command, and its comparison with the database at equal speeds."""

from __future__ import annotations

import json

import numpy as np

from mm_ros.cli.main import main
from mm_ros.evaluation.benchmarks import steering
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database


def test_the_command_writes_a_block_for_each_engine(tmp_path, capsys):
    file = tmp_path / "steering.json"
    assert main(["bench", "steering", "--engines", "state_machine", "--rounds", "1", "--json", str(file)]) == 0
    block = json.loads(file.read_text())["engines"]["state_machine"]
    for name in ("turn_45_s", "turn_90_s", "turn_180_s", "stop_s", "pops_per_min", "database_pops_per_min"):
        assert 0.0 <= block[name] < 1e3, name
    assert set(block["path_deviation_m"]) == {"mean", "median", "p95"}
    assert block["skate_ratio"] < 0.2 and block["frames"] > 1000
    assert "state_machine" in capsys.readouterr().out


def test_fast_gaits_of_the_database_have_more_pops_than_slow_ones():
    own = steering.reference(read_database(default_database_path()))
    assert own.pops_by_speed[:2].max() < 1.0 < own.pops_by_speed[2] < own.pops_by_speed[3]
    assert np.isfinite(own.pops_by_speed).all()
