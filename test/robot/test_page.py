"""The robot on the page: each link with a shape has a mesh, which is placed at the link's pose."""

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed (extra 'viewer')")

from robots import HUMANOID

from mm_ros.robot.figure import read_figure
from mm_ros.show.page import scene as page
from mm_ros.show.page.swift import Setters


class Handle:
    position = wxyz = ()


class Server:
    """Keeps the meshes that a scene adds."""

    def __init__(self) -> None:
        self.scene, self.meshes = self, {}

    def add_frame(self, path: str, **_: object) -> None:
        self.frame = path

    def add_mesh_simple(self, path: str, vertices: np.ndarray, faces: np.ndarray, **_: object) -> Handle:
        assert faces.max() < len(vertices) and np.isfinite(vertices).all()
        self.meshes[path] = Handle()
        return self.meshes[path]


def test_the_meshes_of_a_robot_move_with_its_links(monkeypatch):
    monkeypatch.setattr(page, "mover", lambda server: Setters())
    figure, server = read_figure(HUMANOID), Server()
    body = page.RobotBody(server, "/a/robot", figure)
    base = np.array([1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0])
    body.show(figure.robot.links({}, base))
    shaped = [name for name, part in figure.robot.parts.items() if part.shapes]
    assert len(server.meshes) == len(shaped) and server.frame == "/a/robot"
    assert [1.0, 2.0, 3.0] in [list(h.position) for h in server.meshes.values()]  # the pelvis
