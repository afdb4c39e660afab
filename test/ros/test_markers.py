"""Markers of an avatar for RViz, and the URDF of its body."""

import math
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from toys import toy_database

pytest.importorskip("rclpy", reason="rclpy is not installed")

from visualization_msgs.msg import Marker

from mm_ros.body.mesh import flesh_bones
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import LEFT_FOOT, LEFT_TOES, NAMES, Skeleton, default_skeleton
from mm_ros.body.types import BodyOrientation, rest_pose
from mm_ros.robot.description import STEP_M, capsules_urdf
from mm_ros.ros import markers
from mm_ros.ros.nodes.visualizer import Visualizer

SKELETON = default_skeleton()


def standing(locked=(False, False), contacts=(False, False)):
    pose = rest_pose(SKELETON)
    pose.locked[:], pose.contacts[:] = locked, contacts
    return pose


def color(m: Marker) -> tuple[float, ...]:
    return pytest.approx((m.color.r, m.color.g, m.color.b, m.color.a))


def test_a_locked_foot_is_covered_in_its_color_and_one_on_the_floor_is_marked():
    pose = standing(locked=(True, False), contacts=(True, True))
    added = {m.id: m for m in markers.feet("feet", pose) if m.action == Marker.ADD}
    assert set(added) == {0, 3}  # ellipsoid of the left foot, disc of the right
    assert color(added[0]) == markers.LOCKED and color(added[3]) == markers.CONTACT
    shell = added[0]
    p, _ = room_joints(pose)
    middle = np.array([shell.pose.position.x, shell.pose.position.y, shell.pose.position.z])
    half = np.array([shell.scale.x, shell.scale.y, shell.scale.z]) / 2
    for joint in (LEFT_FOOT, LEFT_TOES):
        assert abs(p[joint] - middle)[0] < half[0]


def test_what_a_foot_no_longer_does_is_removed():
    removed = {m.id for m in markers.feet("feet", standing()) if m.action == Marker.DELETE}
    assert removed == {0, 1, 2, 3}


def test_an_avatar_that_stands_has_no_arrow_of_no_length():
    pose = standing()
    assert [m.action for m in markers.velocity("velocity", pose)] == [Marker.DELETE, Marker.ADD]
    pose.velocities[0, 0] = 1.0
    arrow, text = markers.velocity("velocity", pose)
    assert arrow.points[1].x - arrow.points[0].x == pytest.approx(markers.VELOCITY_S) and text.text == "1.00 m/s"


@pytest.mark.parametrize("sigma", [0.1, 1.0, 9.0])
def test_the_fan_of_the_facing_is_one_sigma_to_each_side(sigma):
    arrow, fan = markers.facing("facing", BodyOrientation(0, 0, 0.4, 0.0, sigma, "network"), np.array([1.0, 2.0]))
    tip = arrow.points[1]
    assert math.atan2(tip.y - 2.0, tip.x - 1.0) == pytest.approx(0.4)
    angles = np.unwrap([math.atan2(p.y - 2.0, p.x - 1.0) for p in fan.points if abs(p.x - 1.0) > 1e-9])
    assert np.ptp(angles) == pytest.approx(2 * min(sigma, math.pi), abs=1e-6)


def test_markers_vanish_when_they_are_not_sent_again():
    array = markers.array(markers.feet("feet", standing()), 5, "odom")
    assert {m.lifetime.nanosec for m in array.markers} == {500_000_000}
    assert {(m.header.frame_id, m.header.stamp.nanosec) for m in array.markers} == {("odom", 5)}


def test_candidates_are_drawn_from_the_database_that_was_searched():
    """`database` of motion_matcher is live, that of the visualizer is not: its frames would be other poses."""
    node = SimpleNamespace(_database=toy_database())
    pose, of_node = rest_pose(default_skeleton()), node._database.hash
    assert [m.ns for m in Visualizer._candidate(node, 2, 5, of_node, pose)] == ["candidates"]
    assert Visualizer._candidate(node, 2, 5, of_node + 1, pose) == []
    assert Visualizer._candidate(node, 2, len(node._database), of_node, pose) == []


def visuals(skeleton: Skeleton, link: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(capsules_urdf(skeleton, "a"))
    return next(e for e in root.findall("link") if e.get("name") == f"a/{link}").findall("visual")


def numbers(visual: ElementTree.Element) -> np.ndarray:
    origin, geometry = visual.find("origin"), visual.find("geometry")[0]
    text = f"{origin.get('xyz')} {origin.get('rpy')} {geometry.get('radius')} {geometry.get('length', '1')}"
    return np.array([float(v) for v in text.split()])


def test_the_body_tapers_in_steps_that_are_hardly_seen():
    for bone in flesh_bones(SKELETON):
        if NAMES[bone.joint] != "left_lower_arm" or np.linalg.norm(bone.end) < 0.1:
            continue
        radii = [numbers(v)[6] for v in visuals(SKELETON, "left_lower_arm") if v.find("geometry")[0].tag == "cylinder"]
        assert max(radii) == pytest.approx(max(bone.radius_start, bone.radius_end), abs=STEP_M)
        assert min(radii) == pytest.approx(min(bone.radius_start, bone.radius_end), abs=STEP_M)


def test_the_head_looks_forward_and_the_feet_reach_from_heel_to_toes():
    eyes = [numbers(v)[:3] for v in visuals(SKELETON, "head") if v.find("material").get("name") == "eyes"]
    assert [np.sign(e[1]) for e in eyes] == [1.0, -1.0] and all(e[0] > 0.08 for e in eyes)
    foot = np.array([numbers(v) for v in visuals(SKELETON, "left_foot")])
    assert (foot[:, 0] - foot[:, 6]).min() < -0.05 < 0.1 < (foot[:, 0] + foot[:, 6]).max()


def test_a_bone_without_length_has_no_cylinder_and_no_nan():
    offsets = SKELETON.offsets.copy()
    offsets[NAMES.index("left_lower_arm")] = 0.0
    root = ElementTree.fromstring(capsules_urdf(replace(SKELETON, offsets=offsets), "a"))
    for visual in root.iter("visual"):
        assert np.isfinite(numbers(visual)).all() and (numbers(visual)[6:] > 0).all()
