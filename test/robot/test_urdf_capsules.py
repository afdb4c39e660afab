"""The avatar's URDF, read by ROS's own parser: all shapes are valid for RViz."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
parser = pytest.importorskip("urdf_parser_py.urdf", reason="urdf_parser_py is not installed (extra 'test')")

from toys import joints_in_one_place, with_tiny_hands

from mm_ros.body.mesh import flesh_bones
from mm_ros.body.skeleton import HIPS, NAMES, SPINE, Skeleton, default_skeleton
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.matching.model_file import load_learned
from mm_ros.maths import rotations as rot
from mm_ros.maths.transformations import quaternion_from_rpy
from mm_ros.motion.build import build_database
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database, write_database
from mm_ros.motion.importing import load_clips
from mm_ros.robot.description import capsules_urdf

SHORTEST_M = 1e-4


def read_back(skeleton: Skeleton) -> SimpleNamespace:
    """Each shape of the URDF, and all its numbers."""
    robot = parser.URDF.from_xml_string(capsules_urdf(skeleton, "anna").encode())
    assert [link.name for link in robot.links] == [f"anna/{n}" for n in NAMES]
    assert len(robot.joints) == len(NAMES) - 1 and robot.get_root() == "anna/root"
    visuals = [(link.name.removeprefix("anna/"), v) for link in robot.links for v in link.visuals]
    numbers = [x for j in robot.joints for x in (*j.origin.xyz, *j.origin.rpy)]
    for _, v in visuals:
        numbers += [*v.origin.xyz, *v.origin.rpy, v.geometry.radius]
    tubes = [(name, v) for name, v in visuals if isinstance(v.geometry, parser.Cylinder)]
    return SimpleNamespace(tubes=tubes, visuals=visuals, numbers=numbers)


def check(skeleton: Skeleton) -> None:
    found = read_back(skeleton)
    assert all(math.isfinite(x) for x in found.numbers)
    assert all(v.geometry.radius > 0.005 for _, v in found.visuals)
    for joint, name in enumerate(NAMES):
        ways = [b.end - b.start for b in flesh_bones(skeleton) if b.joint == joint]
        ways = [way for way in ways if np.linalg.norm(way) > SHORTEST_M]
        tubes = [tube for where, tube in found.tubes if where == name]
        assert all(tube.geometry.length > 0 for tube in tubes)
        whole = sum(np.linalg.norm(way) for way in ways)  # a tapered bone is several tubes, one behind the other
        assert sum(tube.geometry.length for tube in tubes) == pytest.approx(whole, abs=1e-3), name
        for tube in tubes:
            axis = rot.rotate(quaternion_from_rpy(*tube.origin.rpy), np.array([0.0, 0.0, 1.0]))
            assert max(float(axis @ way / np.linalg.norm(way)) for way in ways) > 1 - 1e-6, name


def test_skeletons_that_ship():
    check(read_database(default_database_path()).skeleton)
    check(load_learned(MatcherSettings(engine="learned")).digest.skeleton)
    check(default_skeleton())


def test_bones_without_length_have_no_capsule():
    skeleton = joints_in_one_place(default_skeleton())
    check(skeleton)
    assert np.linalg.norm(skeleton.offsets[SPINE]) == 0 and np.linalg.norm(skeleton.offsets[HIPS]) > 0


def test_tapered_bones_of_a_fifth_of_a_millimetre_have_no_cylinder_of_length_0():
    skeleton = with_tiny_hands(default_skeleton(), 2e-4)
    check(skeleton)
    assert sum(name == "left_lower_arm" for name, _ in read_back(skeleton).tubes) > 1


def test_a_database_of_cmus_clips(cmu_locomotion: Path, tmp_path: Path):
    clips = load_clips([cmu_locomotion / "cmu_locomotion" / "69_01.bvh"])
    write_database(build_database(clips), tmp_path / "my.mmdb")
    check(read_database(tmp_path / "my.mmdb").skeleton)
