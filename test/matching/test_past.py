"""Layouts that look back, and the kinds joint_direction and trajectory_velocity: build, query and matcher agree."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.body.types import Trajectory
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import rotations as rot
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.feature_files import read_layout
from mm_ros.motion.features import default_layout
from mm_ros.motion.procedural import make_clips

LAYOUT = """
features:
  - {name: path, kind: trajectory_position, times: [-0.4, 0.5, 1.0], weight: 4.0}
  - {name: speed, kind: trajectory_velocity, times: [-0.4, 0.0, 0.5], weight: 1.0}
  - {name: turn, kind: trajectory_direction, times: [-0.4, 0.5], weight: 2.0}
  - {name: chest, kind: joint_direction, joint: chest, weight: 1.0}
"""
PERIOD = 1 / 60


@pytest.fixture(scope="module")
def clips():
    return [c for c in make_clips(3) if c.name.startswith(("walk", "idle", "turn"))]


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    path = tmp_path_factory.mktemp("layout") / "features.yaml"
    path.write_text(LAYOUT)
    return read_layout(path)


@pytest.fixture(scope="module")
def database(clips, layout):
    return build_database(clips, layout, BuildOptions(mirror=False, plant_feet=False, stooped=0.0))


def columns(database, row, name):
    values = np.asarray(row) * database.feature_std + database.feature_mean
    return values[database.layout.offsets[name]]


def desired(stamp_ns, position, velocity, yaw):
    times = np.array([0.5, 1.0])
    ahead = position + times[:, None] * velocity
    way = np.tile([np.cos(yaw), np.sin(yaw)], (2, 1))
    return Trajectory(stamp_ns, 0, "path", position, velocity, yaw, 0.0, 1.0, times, ahead, way)


def test_a_database_has_the_direction_of_a_joint_and_the_velocity_of_the_root(database):
    frame = int(database.range_starts[0]) + 60
    positions, rotations = (np.asarray(a, np.float64) for a in (database.positions, database.rotations))
    root = rotations[frame, 0]
    names = list(database.skeleton.names)
    q, joint, path = root, names.index("chest"), []
    while joint > 0:
        path.append(joint)
        joint = int(database.skeleton.parents[joint])
    for j in reversed(path):
        q = rot.multiply(q, rotations[frame, j])
    expected = rot.rotate(rot.multiply(rot.inverse(root), q), np.array([1.0, 0.0, 0.0]))
    assert np.allclose(columns(database, database.features[frame], "chest"), expected, atol=1e-4)
    step = (positions[frame + 1, 0] - positions[frame - 1, 0]) * database.rate / 2
    own = rot.rotate(rot.inverse(root), step)[:2]
    assert np.allclose(columns(database, database.features[frame], "speed")[2:4], own, atol=0.02)


def test_the_query_looks_back_at_the_root_as_it_was_played(database):
    stage = MatcherStage(MatcherSettings(search_structure="brute"), database)
    roots, checked = [], 0
    for n in range(150):
        now = desired(n * int(PERIOD * 1e9), np.array([1.2 * n * PERIOD, 0.1]), np.array([1.2, 0.0]), 0.2)
        before = list(roots)
        _, match = stage.step(now)
        roots.append((now.stamp_ns * 1e-9, *stage.control.root))
        if not match.searched or n < 40:
            continue
        here, past = np.array(before[-1]), np.array(before)
        then = [np.interp(here[0] - 0.4, past[:, 0], past[:, i]) for i in (1, 2, 3)]
        c, s = np.cos(here[3]), np.sin(here[3])
        x, y = then[0] - here[1], then[1] - here[2]
        assert np.allclose(columns(database, match.query, "path")[:2], [c * x + s * y, -s * x + c * y], atol=1e-3)
        turned = then[2] - here[3]
        assert np.allclose(columns(database, match.query, "turn")[:2], [np.cos(turned), np.sin(turned)], atol=1e-3)
        ahead = columns(database, match.query, "speed")[4:]
        assert np.allclose(np.linalg.norm(ahead), 1.2, atol=1e-3)
        checked += 1
    assert checked > 5


def test_a_jump_of_the_room_forgets_the_past(database):
    stage = MatcherStage(MatcherSettings(), database)
    for n in range(60):
        stage.step(desired(n * int(PERIOD * 1e9), np.zeros(2), np.zeros(2), 0.0))
    moved = desired(60 * int(PERIOD * 1e9), np.array([5.0, 0.0]), np.zeros(2), 0.0)
    _, match = stage.step(replace(moved, epoch=1, new_from_old=np.array([5.0, 0, 0, 1, 0, 0, 0])))
    assert match is not None
    for n in range(61, 80):
        _, match = stage.step(replace(moved, stamp_ns=n * int(PERIOD * 1e9), epoch=1))
        if match.searched:
            assert np.linalg.norm(columns(database, match.query, "path")[:2]) < 0.5


def test_the_default_layout_does_not_look_back():
    assert default_layout().past_s == 0.0
