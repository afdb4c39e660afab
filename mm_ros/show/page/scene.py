"""The scene that the inspector page shows for one avatar."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from mm_ros.body.landmarks import Landmarks
from mm_ros.body.mesh import skin
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES, Skeleton
from mm_ros.body.types import BODY_ROLES, HEAD_ROLE, LOST, ROLES, AvatarPose, FeetEstimate, TrackerFrame, Trajectory
from mm_ros.robot.figure import Figure
from mm_ros.show.page import meshes
from mm_ros.show.page.features import ABOVE_FLOOR_M, FeatureVectors
from mm_ros.show.page.swift import mover
from mm_ros.show.robot import link_meshes

Color = tuple[int, int, int]

PALETTE = ((78, 130, 214), (206, 104, 62), (80, 152, 90), (146, 90, 176), (188, 150, 54), (60, 148, 156))
GHOST, MATCHED, DEVICE = (214, 184, 128), (150, 150, 160), (34, 36, 42)
DESIRED_COLOR, FOUND, PLANTED, TOUCHING = (30, 120, 240), (240, 140, 30), (240, 90, 40), (245, 190, 60)
SEEN, USER_FEET = (190, 60, 160), (70, 190, 100)
ROBOT = (140, 144, 150)
QUERY, WINNER, TRAIL = (30, 120, 240), (240, 140, 30), (170, 175, 188)
BESIDE_M = (0.0, 1.0, 0.0)
FLOOR_M = 60.0
SKY_LIGHT, FRONT_LIGHT = 1.2, 2.5
TRAIL_PIECES, TRAIL_PIECE, TRAIL_STEP_M = 12, 40, 0.04
# Pairs of BlazePose landmarks that are connected by a line: face, shoulders and arms, trunk, legs.
LANDMARK_LINES = np.array([
    (8, 6), (6, 5), (5, 4), (4, 0), (0, 1), (1, 2), (2, 3), (3, 7), (10, 9),
    (11, 12), (11, 13), (13, 15), (15, 17), (15, 19), (15, 21), (17, 19),
    (12, 14), (14, 16), (16, 18), (16, 20), (16, 22), (18, 20), (11, 23), (12, 24), (23, 24),
    (23, 25), (25, 27), (27, 29), (27, 31), (29, 31), (24, 26), (26, 28), (28, 30), (28, 32), (30, 32),
])  # fmt: skip
MOVED_M, TURNED = 2e-4, 3e-4  # smallest changes of a bone that are sent: of a coordinate, of a number of its quaternion

LAYERS = (
    "body", "truth", "matched", "trackers", "desired", "found", "feet", "user_feet", "features", "trail", "landmarks",
)  # fmt: skip
HIDDEN = ("matched", "features")


def furnish(server: Any) -> None:
    """Add the floor, the lights and the initial camera to the scene of the inspector page."""
    scene = server.scene
    scene.set_up_direction("+z")
    scene.add_grid(
        "/floor", FLOOR_M, FLOOR_M, cell_size=0.5, section_size=1.0, cell_color=(222, 226, 232),
        section_color=(206, 211, 220), plane_color=(240, 242, 245), plane_opacity=1.0, shadow_opacity=0.3,
        fade_distance=26.0, fade_strength=1.4, position=(0.0, 0.0, -0.002),
    )  # fmt: skip
    # The scene has lights instead of an environment map: if the server's map arrives while the default map of viser
    # 1.1 fades in, the canvas stays half transparent.
    scene.configure_environment_map(None)
    scene.add_light_hemisphere("/floor/sky", ground_color=(150, 155, 165), intensity=SKY_LIGHT)
    scene.add_light_directional("/floor/front", intensity=FRONT_LIGHT, position=(3.0, -4.0, 2.0))
    server.initial_camera.position = (2.5, -2.7, 1.6)
    server.initial_camera.look_at = (0.0, 0.0, 0.9)
    server.initial_camera.fov = 0.75


class Body:
    """Skin mesh of an avatar or a true body, moved by the joints of its skeleton."""

    def __init__(self, server: Any, path: str, skeleton: Skeleton, color: Color, opacity: float | None):
        self.skeleton = skeleton
        mesh = skin(skeleton)
        self._move = mover(server)
        self._mesh = server.scene.add_mesh_skinned(
            path, mesh.vertices, mesh.faces, bone_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (len(skeleton) - 1, 1)),
            bone_positions=mesh.rest[1:], skin_weights=mesh.dense_weights()[:, 1:], color=color, opacity=opacity,
            cast_shadow=opacity is None, receive_shadow=False,
        )  # fmt: skip
        self._positions, self._rotations = (np.full((len(skeleton), n), np.inf) for n in (3, 4))  # last values sent

    def show(self, positions: Any, rotations: Any) -> None:
        """Send the poses of those joints that have moved since the last call to the page."""
        moved = np.abs(positions - self._positions).max(1) > MOVED_M
        turned = np.abs(rotations - self._rotations).max(1) > TURNED
        self._positions[moved], self._rotations[turned] = positions[moved], rotations[turned]
        for j in np.flatnonzero((moved | turned)[1:]).tolist():
            p = positions[j + 1].tolist() if moved[j + 1] else None
            q = rotations[j + 1].tolist() if turned[j + 1] else None
            self._move.bone(self._mesh, j, p, q)


class RobotBody:
    """Meshes of the links of a robot, drawn to the right of the avatar."""

    def __init__(self, server: Any, path: str, figure: Figure):
        self._move = mover(server)
        server.scene.add_frame(path, show_axes=False, position=(0.0, -BESIDE_M[1], 0.0))
        self._links = {
            link: server.scene.add_mesh_simple(f"{path}/{number}", vertices, faces, color=ROBOT, flat_shading=False)
            for number, (link, (vertices, faces)) in enumerate(link_meshes(figure).items())
        }

    def show(self, poses: dict[str, Any]) -> None:
        for link, handle in self._links.items():
            self._move.place(handle, poses[link][:3].tolist(), poses[link][3:].tolist())


class Path:
    """Trajectory of an avatar's root: a line on the floor, with an arrow for each facing direction."""

    def __init__(self, server: Any, path: str, color: Color):
        self._server, self._path, self._color = server, path, color
        self._line: Any = None
        self._arrows: Any = None

    def show(self, places: Any, directions: Any) -> None:
        points = np.asarray(places, np.float32) * (1, 1, 0) + (0, 0, ABOVE_FLOOR_M)
        tips = points[1:] + 0.2 * np.asarray(directions, np.float32)[1:]
        segments, arrows = np.stack([points[:-1], points[1:]], 1), np.stack([points[1:], tips], 1)
        if self._line is None or len(self._line.points) != len(segments):
            self._line = self._server.scene.add_line_segments(
                f"{self._path}/line", segments.astype(np.float32), self._color, thickness=0.014
            )
            self._arrows = self._server.scene.add_arrows(
                f"{self._path}/facing", arrows.astype(np.float32), self._color, shaft_radius=0.008,
                head_radius=0.024, head_length=0.05,
            )  # fmt: skip
            return
        self._line.points, self._arrows.points = segments.astype(np.float32), arrows.astype(np.float32)


class Trail:
    """Line on the floor along the past path of the avatar's root. The drawn path is divided into pieces, so that each
    update sends only the newest piece to the page."""

    def __init__(self, server: Any, path: str):
        self._server, self._path = server, path
        self._pieces: deque[Any] = deque()
        self._points: list[tuple[float, float, float]] = []
        self._made = 0

    def extend(self, root: Any) -> None:
        here = (float(root[0]), float(root[1]), 0.006)
        if self._points and np.hypot(here[0] - self._points[-1][0], here[1] - self._points[-1][1]) < TRAIL_STEP_M:
            return
        self._points.append(here)
        points = np.array(self._points, np.float32)
        if len(points) == 2 or (len(points) > 2 and not self._pieces):
            self._begin(np.stack([points[:-1], points[1:]], 1))
        elif len(points) > 2:
            self._pieces[-1].points = np.stack([points[:-1], points[1:]], 1)
        if len(points) > TRAIL_PIECE:
            self._points = self._points[-1:]

    def _begin(self, segments: Any) -> None:
        self._made += 1
        self._pieces.append(
            self._server.scene.add_line_segments(f"{self._path}/{self._made}", segments, TRAIL, thickness=0.01)
        )
        while len(self._pieces) > TRAIL_PIECES:
            self._pieces.popleft().remove()

    def clear(self) -> None:
        while self._pieces:
            self._pieces.popleft().remove()
        self._points.clear()


class AvatarScene:
    """All objects of one avatar in the scene, below the scene node `/<name>`; they are created once and then moved.
    """

    def __init__(self, server: Any, name: str, index: int = 0):
        self._server, self.name, self.index = server, name, index
        self._move = mover(server)
        self._color = PALETTE[index % len(PALETTE)]
        self._root = server.scene.add_frame(f"/{name}", show_axes=False)
        self._layers = {layer: server.scene.add_frame(f"/{name}/{layer}", show_axes=False) for layer in LAYERS}
        for layer in HIDDEN:
            self._layers[layer].visible = False
        self.beside(True)
        self._bodies: dict[str, Body] = {}
        self._trackers = self._make_trackers()
        self._feet = [self._make_foot(s) for s in ("left", "right")]
        self._user_feet = [self._make_user_foot(s) for s in ("left", "right")]
        self._desired = Path(server, f"/{name}/desired", DESIRED_COLOR)
        self._found = Path(server, f"/{name}/found", FOUND)
        self._trail = Trail(server, f"/{name}/trail")
        self._features: dict[str, Any] = {}
        self._seen: Any = None
        self._label: Any = None
        self._robot: RobotBody | None = None
        self.root = np.zeros(3)
        self.head = np.array([0.0, 0.0, 1.6])
        self.head_wxyz = np.array([1.0, 0.0, 0.0, 0.0])
        self.eyes: Any = None  # position and rotation of the user's headset; None while the headset is lost
        self.root_pose = np.array([0.0, 0, 0, 1, 0, 0, 0])
        self._joints: Any = None

    def visible(self, layer: str, shown: bool) -> None:
        self._layers[layer].visible = shown

    def beside(self, beside: bool) -> None:
        """Draw the true body beside the avatar if `beside` is true, else at its true position, where both bodies
        overlap."""
        self._layers["truth"].position = BESIDE_M if beside else (0.0, 0.0, 0.0)

    def shown(self, layer: str) -> bool:
        return bool(self._layers[layer].visible)

    def named(self, shown: bool) -> None:
        """Show or hide the name of the avatar above its head."""
        if shown and self._label is None:
            self._label = self._server.scene.add_label(f"/{self.name}/name", self.name)
        if self._label is not None:
            self._label.visible = shown

    def skeleton(self, layer: str, skeleton: Skeleton) -> None:
        """Set the skeleton of the body in one of the layers `body`, `truth` and `matched`."""
        known = self._bodies.get(layer)
        if known is not None and known.skeleton.hash == skeleton.hash:
            return
        color, opacity = {"body": (self._color, None), "truth": (GHOST, 0.75), "matched": (MATCHED, 0.35)}[layer]
        # The new skin mesh replaces the old one under its name, because viser 1.1 shows a white page if a skinned mesh
        # is removed.
        self._bodies[layer] = Body(self._server, f"/{self.name}/{layer}/skin", skeleton, color, opacity)

    def body(self, layer: str, pose: AvatarPose) -> None:
        body = self._bodies.get(layer)
        if body is None or body.skeleton.hash != pose.skeleton:
            return
        p, q = room_joints(pose, body.skeleton)
        if self.shown(layer):
            body.show(p, q)
        if layer == "body":
            self._follow(pose, p, q)

    def _follow(self, pose: AvatarPose, p: Any, q: Any) -> None:
        jumped = np.linalg.norm(p[0] - self.root) > 1.0
        self.root, self.head, self.head_wxyz, self._joints = p[0], p[HEAD], q[HEAD], p
        self.root_pose = np.concatenate([p[0], q[0]])
        for side, (foot, toes) in enumerate(((LEFT_FOOT, LEFT_TOES), (RIGHT_FOOT, RIGHT_TOES))):
            self._show_foot(side, bool(pose.locked[side]), bool(pose.contacts[side]), (p[foot] + p[toes]) / 2)
        self._show_user_feet(pose.feet)
        if self._label is not None:
            self._label.position = p[HEAD] + (0.0, 0.0, 0.42)
        if jumped:
            self._trail.clear()
        self._trail.extend(p[0])

    def _show_foot(self, side: int, locked: bool, touching: bool, middle: Any) -> None:
        planted, resting = self._feet[side]
        for mark, shown in ((planted, locked), (resting, touching and not locked)):
            if mark.visible != shown:
                mark.visible = shown
            if shown:
                mark.position = (float(middle[0]), float(middle[1]), 0.004)

    def _show_user_feet(self, feet: FeetEstimate | None) -> None:
        for side, (ball, disc) in enumerate(self._user_feet):
            for mark, shown in ((ball, feet is not None), (disc, feet is not None and feet.contact[side] > 0.5)):
                if mark.visible != shown:
                    mark.visible = shown
                if shown and feet is not None:
                    x, y, z = feet.ankles[side].tolist()
                    mark.position = (x, y, z if mark is ball else 0.003)

    def robot(self, figure: Figure, poses: dict[str, Any]) -> None:
        """Draw the robot that follows the avatar, with the poses `poses` of its links."""
        if self._robot is None:
            self._robot = RobotBody(self._server, f"/{self.name}/robot", figure)
        self._robot.show(poses)

    def trackers(self, frame: TrackerFrame) -> None:
        for r, handle in enumerate(self._trackers):
            tracked = bool(frame.state[r] != LOST)
            if handle.visible != tracked:
                handle.visible = tracked
            if tracked:
                self._move.place(handle, frame.positions[r].tolist(), frame.rotations[r].tolist())
        there = frame.state[HEAD_ROLE] != LOST
        self.eyes = (frame.positions[HEAD_ROLE], frame.rotations[HEAD_ROLE]) if there else None

    def desired(self, desired: Trajectory) -> None:
        if not self.shown("desired"):
            return
        now = np.asarray(desired.position, np.float64)[None]
        flat = np.column_stack([np.vstack([now, desired.positions]), np.zeros(len(desired.times) + 1)])
        ahead = np.column_stack([desired.directions, np.zeros(len(desired.times))])
        self._desired.show(flat, np.vstack([np.zeros((1, 3)), ahead]))

    def match(self, query: FeatureVectors, winner: FeatureVectors) -> None:
        """Draw the trajectory of the matched motion, and the features of the query and of the match."""
        if self.shown("found") and winner.positions:
            self._found.show(*winner.path(self.root_pose))
        if self.shown("features") and self._joints is not None:
            for name, found, color in (("query", query, QUERY), ("winner", winner, WINNER)):
                self._draw_features(name, found, color)

    def landmarks(self, seen: Landmarks) -> None:
        """Draw the camera landmarks in the axes of the camera, beside the avatar and opposite to the true body."""
        if not self.shown("landmarks") or self._joints is None:
            return
        middle = self._joints[HIPS] - np.array(BESIDE_M)
        points = (middle + seen.positions).astype(np.float32)
        lines = points[LANDMARK_LINES]
        if self._seen is None:
            base, scene = f"/{self.name}/landmarks", self._server.scene
            self._seen = (
                scene.add_point_cloud(f"{base}/points", points, SEEN, point_size=0.025, point_shape="circle"),
                scene.add_line_segments(f"{base}/lines", lines, SEEN, thickness=0.01),
            )
            return
        self._seen[0].points, self._seen[1].points = points, lines

    def _draw_features(self, name: str, found: FeatureVectors, color: Color) -> None:
        lines, arrows = (v.astype(np.float32) for v in found.segments(self.root_pose, self._joints))
        known = self._features.get(name)
        if known is None:
            base, scene = f"/{self.name}/features/{name}", self._server.scene
            self._features[name] = (
                scene.add_line_segments(f"{base}/places", lines, color, thickness=0.008),
                scene.add_arrows(f"{base}/velocities", arrows, color, shaft_radius=0.006, head_radius=0.016,
                                 head_length=0.04),
            )  # fmt: skip
            return
        known[0].points, known[1].points = lines, arrows

    def leave(self) -> None:
        """Hide the avatar because its ROS nodes have stopped. The objects of the hidden avatar are kept, because viser
        1.1 cannot remove a skinned mesh."""
        self._root.visible = False
        self._trail.clear()

    def come_back(self) -> None:
        self._root.visible = True

    def _make_trackers(self) -> list[Any]:
        shapes = [meshes.headset(), meshes.controller(1.0), meshes.controller(-1.0)] + [meshes.puck()] * len(BODY_ROLES)
        return [
            self._server.scene.add_mesh_simple(f"/{self.name}/trackers/{role}", v, f, color=DEVICE, visible=False)
            for role, (v, f) in zip(ROLES, shapes, strict=True)
        ]

    def _make_user_foot(self, side: str) -> list[Any]:
        v, f = meshes.puck()
        flat = v * np.array([3.6, 3.6, 0.15], np.float32)
        base, scene = f"/{self.name}/user_feet/{side}", self._server.scene
        return [
            scene.add_icosphere(f"{base}_ankle", 0.04, USER_FEET, opacity=0.7, cast_shadow=False, visible=False),
            scene.add_mesh_simple(
                f"{base}_stands", flat, f, color=USER_FEET, opacity=0.5, cast_shadow=False, visible=False
            ),
        ]

    def _make_foot(self, side: str) -> list[Any]:
        v, f = meshes.puck()
        flat = v * np.array([3.2, 3.2, 0.2], np.float32)
        return [
            self._server.scene.add_mesh_simple(
                f"/{self.name}/feet/{side}_{kind}", flat, f, color=color, opacity=0.6, cast_shadow=False, visible=False
            )
            for kind, color in (("locked", PLANTED), ("touching", TOUCHING))
        ]
