"""The skin around a skeleton, and its pictures."""

import numpy as np
import pytest

from mm_ros.body.mesh import skin
from mm_ros.body.skeleton import LEFT_HAND, J, default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.show.film import Actor, figure, film
from mm_ros.show.render import BODY, Shape, follow, render

REST_ROTATIONS = np.tile([1.0, 0.0, 0.0, 0.0], (J, 1))


@pytest.fixture(scope="module")
def mesh():
    return skin(default_skeleton())


def test_the_skin_is_closed_and_looks_outward(mesh):
    edges = np.sort(mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    assert (count % 2 == 0).all()
    a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(float) for k in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6
    assert 0.05 < volume < 0.1  # m³, of a person; negative if the surface is inside out


def test_the_skin_stands_on_the_floor_and_is_as_tall_as_a_person(mesh):
    assert mesh.vertices[:, 2].min() == pytest.approx(0.0, abs=0.015)
    assert 1.7 < mesh.vertices[:, 2].max() < 1.85


def test_weights_of_a_vertex_add_up_to_one(mesh):
    assert mesh.weights.sum(1) == pytest.approx(np.ones(len(mesh.weights)), abs=1e-5)
    assert mesh.dense_weights().sum(1) == pytest.approx(np.ones(len(mesh.weights)), abs=1e-5)


def test_every_visible_joint_moves_some_of_the_skin(mesh):
    assert set(np.unique(mesh.joints[mesh.weights > 0.5])) == set(range(1, J))


def test_the_rest_pose_is_the_skin_itself(mesh):
    vertices, normals = mesh.posed(mesh.rest, REST_ROTATIONS)
    assert vertices == pytest.approx(mesh.vertices, abs=1e-5)
    assert normals == pytest.approx(mesh.normals, abs=1e-5)


def test_the_skin_goes_where_the_joints_go(mesh):
    turn = rot.from_yaw(1.2)
    move = np.array([3.0, -1.0, 0.5])
    vertices, _ = mesh.posed(rot.rotate(turn, mesh.rest) + move, np.tile(turn, (J, 1)))
    assert vertices == pytest.approx(rot.rotate(turn, mesh.vertices.astype(float)) + move, abs=1e-5)


def test_the_skin_of_a_taller_user_is_taller(mesh):
    tall = skin(default_skeleton().scaled(1.2))
    assert np.ptp(tall.vertices[:, 2]) == pytest.approx(1.2 * np.ptp(mesh.vertices[:, 2]), rel=0.02)


def test_a_hand_belongs_to_the_hand(mesh):
    tip = mesh.vertices[:, 1].argmax()
    assert mesh.joints[tip, mesh.weights[tip].argmax()] == LEFT_HAND


def test_a_picture_shows_the_body_where_it_stands():
    skeleton = default_skeleton()
    camera = follow(0.0, 0.0, 4.0, 0.5)
    empty = render([], camera, 120, 120).astype(int)
    body = figure(skeleton, skeleton.rest_positions(), REST_ROTATIONS)
    shown = np.abs(render([body], camera, 120, 120).astype(int) - empty).max(2) > 25
    rows, columns = np.nonzero(shown)
    assert 400 < shown.sum() < 4000
    assert np.median(columns) == pytest.approx(60, abs=8)
    assert rows.min() < 40
    assert rows.max() > 80


def test_what_is_behind_is_hidden():
    skeleton = default_skeleton()
    front = figure(skeleton, skeleton.rest_positions(), REST_ROTATIONS, (1.0, 0.0, 0.0))
    behind = Shape(front.vertices - (2.0, 0.0, 0.0), front.normals, front.faces, (0.0, 1.0, 0.0))
    camera = follow(0.0, 0.0, 4.0, 0.0, 1.0)  # looks along -x
    one, other = render([front, behind], camera, 80, 80), render([behind, front], camera, 80, 80)
    assert np.array_equal(one, other)
    middle = one[30:45, 37:43].reshape(-1, 3).astype(int)
    assert (middle[:, 0] > middle[:, 1] + 40).mean() > 0.9


def test_a_film_goes_on_where_an_actor_is_missing():
    skeleton = default_skeleton()
    poses = [rest_pose(skeleton)] * 3
    pictures = film([Actor(skeleton, poses, BODY), Actor(skeleton, [poses[0], None, poses[0]])], 60, 60)
    assert len(pictures) == 3
    assert not np.array_equal(pictures[0], pictures[1])
