"""The avatar's URDF, read back by ROS's own parser: numbers, not shapes that RViz refuses."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
parser = pytest.importorskip("urdf_parser_py.urdf", reason="urdf_parser_py is not installed (extra 'test')")

from toys import joints_in_one_place

from mm_ros.core import rotations as rot
from mm_ros.core.body_shape import bones
from mm_ros.core.matcher import MatcherSettings
from mm_ros.core.skeleton import HIPS, NAMES, SPINE, Skeleton, default_skeleton
from mm_ros.io.build import build_database
from mm_ros.io.database import read_database, write_database
from mm_ros.io.default_database import default_database_path
from mm_ros.io.importing import load_clips
from mm_ros.io.learned_model import load_learned
from mm_ros.io.transformations import quaternion_from_rpy
from mm_ros.ros.robot_description import capsules_urdf


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
    shape = sorted(bones(skeleton), key=lambda b: b.joint)
    assert len(found.tubes) == len(shape) and len(found.visuals) == 3 * len(shape)
    for bone, (name, tube) in zip(shape, found.tubes, strict=True):
        way = bone.end - bone.start
        assert name == bone.name and tube.geometry.length > 0
        assert tube.geometry.length == pytest.approx(np.linalg.norm(way), abs=1e-4)
        axis = rot.rotate(quaternion_from_rpy(*tube.origin.rpy), np.array([0.0, 0.0, tube.geometry.length]))
        np.testing.assert_allclose(axis, way, atol=2e-4)
        np.testing.assert_allclose(tube.origin.xyz, (bone.start + bone.end) / 2, atol=1e-5)


def test_skeletons_that_ship():
    check(read_database(default_database_path()).skeleton)
    check(load_learned(MatcherSettings(engine="learned")).digest.skeleton)
    check(default_skeleton())


def test_bones_without_length_have_no_capsule():
    skeleton = joints_in_one_place(default_skeleton())
    check(skeleton)
    trunk = [name for name, v in read_back(skeleton).tubes if name in ("hips", "upper_chest")]
    assert trunk == ["hips"]  # only the bar across the hip joints
    assert np.linalg.norm(skeleton.offsets[SPINE]) == 0 and np.linalg.norm(skeleton.offsets[HIPS]) > 0


def test_a_database_of_cmus_clips(cmu_locomotion: Path, tmp_path: Path):
    clips = load_clips([cmu_locomotion / "cmu_locomotion" / "69_01.bvh"])
    write_database(build_database(clips), tmp_path / "my.mmdb")
    check(read_database(tmp_path / "my.mmdb").skeleton)
