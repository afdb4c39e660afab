"""What one avatar looks like on the page."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from mm_ros.core.body_shape import room_joints
from mm_ros.core.skeleton import HEAD, LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES, Skeleton
from mm_ros.core.types import LOST, ROLES, AvatarPose, TrackerFrame, Trajectory
from mm_ros.viewing import meshes

PALETTE = ((45, 85, 165), (170, 80, 45), (60, 125, 65), (120, 65, 140), (160, 125, 35), (40, 125, 130))
GHOST, MATCHED, DEVICE = (215, 175, 105), (120, 120, 130), (25, 27, 32)
WISHED, PLANTED, FEATURE, TRAIL = (40, 150, 255), (255, 120, 40), (190, 90, 230), (120, 120, 130)
TRAIL_POINTS, TRAIL_STEP_M = 400, 0.03

LAYERS = ("body", "truth", "matched", "trackers", "wish", "feet", "features", "trail")


class Body:
    """A skeleton's meshes, moved joint by joint."""

    def __init__(self, server: Any, path: str, skeleton: Skeleton, color: tuple[int, int, int], opacity: float | None):
        self.skeleton = skeleton
        self._parts = {
            j: server.scene.add_mesh_simple(
                f"{path}/{skeleton.names[j]}", v, f, color=color, opacity=opacity, cast_shadow=opacity is None
            )
            for j, (v, f) in meshes.body(skeleton).items()
        }

    def show(self, pose: AvatarPose, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> None:
        p, q = room_joints(pose)
        for j, part in self._parts.items():
            part.position, part.wxyz = p[j] + shift, q[j]


class AvatarScene:
    """All layers of one avatar below `/<name>`. Handles are made once and moved."""

    def __init__(self, server: Any, name: str, index: int = 0):
        self._server, self.name, self._color = server, name, PALETTE[index % len(PALETTE)]
        self._layers = {layer: server.scene.add_frame(f"/{name}/{layer}", show_axes=False) for layer in LAYERS}
        self._layers["matched"].visible = self._layers["features"].visible = False
        self._bodies: dict[str, Body] = {}
        self._trackers = self._make_trackers()
        self._feet = [self._make_foot(s) for s in ("left", "right")]
        self._trail: deque[tuple[float, float, float]] = deque(maxlen=TRAIL_POINTS)
        self.root = np.zeros(3)
        self.head = np.array([0.0, 0.0, 1.6])
        self.head_wxyz = np.array([1.0, 0.0, 0.0, 0.0])

    def visible(self, layer: str, shown: bool) -> None:
        self._layers[layer].visible = shown

    def skeleton(self, layer: str, skeleton: Skeleton) -> None:
        """`body`, `truth` or `matched` gets this skeleton's shape."""
        known = self._bodies.get(layer)
        if known is not None and known.skeleton.hash == skeleton.hash:
            return
        color, opacity = {"body": (self._color, None), "truth": (GHOST, 0.35), "matched": (MATCHED, 0.3)}[layer]
        self._bodies[layer] = Body(self._server, f"/{self.name}/{layer}", skeleton, color, opacity)

    def body(self, layer: str, pose: AvatarPose) -> None:
        body = self._bodies.get(layer)
        if body is None or body.skeleton.hash != pose.skeleton:
            return
        body.show(pose)
        if layer == "body":
            self._follow(pose)

    def _follow(self, pose: AvatarPose) -> None:
        p, q = room_joints(pose)
        self.root, self.head, self.head_wxyz = p[0], p[HEAD], q[HEAD]
        for side, (foot, toes) in enumerate(((LEFT_FOOT, LEFT_TOES), (RIGHT_FOOT, RIGHT_TOES))):
            planted = bool(pose.locked[side] or pose.contacts[side])
            self._feet[side].visible = planted
            if planted:
                self._feet[side].position = (*((p[foot] + p[toes]) / 2)[:2], 0.005)
        self._extend_trail(p[0])
        self._draw_features(p)

    def _extend_trail(self, root: Any) -> None:
        here = (float(root[0]), float(root[1]), 0.006)
        if self._trail and np.hypot(here[0] - self._trail[-1][0], here[1] - self._trail[-1][1]) < TRAIL_STEP_M:
            return
        self._trail.append(here)
        if len(self._trail) > 1:
            points = np.array(self._trail, np.float32)
            self._lines("trail/line", np.stack([points[:-1], points[1:]], 1), TRAIL, 0.012)

    def _draw_features(self, p: Any) -> None:
        if not self._layers["features"].visible:
            return
        self._lines("features/lines", np.array([[p[0], p[LEFT_FOOT]], [p[0], p[RIGHT_FOOT]]]), FEATURE, 0.01)

    def trackers(self, frame: TrackerFrame) -> None:
        for r, handle in enumerate(self._trackers):
            handle.visible = bool(frame.state[r] != LOST)
            handle.position, handle.wxyz = frame.positions[r], frame.rotations[r]

    def wish(self, wish: Trajectory) -> None:
        at = np.vstack([np.asarray(wish.position, np.float32)[None], wish.positions])
        points = np.column_stack([at, np.full(len(at), 0.012)]).astype(np.float32)
        self._lines("wish/line", np.stack([points[:-1], points[1:]], 1), WISHED, 0.015)
        tips = points[1:] + 0.22 * np.column_stack([wish.directions, np.zeros(len(wish.times))])
        self._server.scene.add_arrows(
            f"/{self.name}/wish/facing", np.stack([points[1:], tips], 1).astype(np.float32), WISHED,
            shaft_radius=0.008, head_radius=0.025, head_length=0.05,
        )  # fmt: skip

    def remove(self) -> None:
        for layer in self._layers.values():
            layer.remove()

    def _lines(self, path: str, segments: Any, color: tuple[int, int, int], thickness: float) -> None:
        self._server.scene.add_line_segments(
            f"/{self.name}/{path}", np.asarray(segments, np.float32), color, thickness=thickness
        )

    def _make_trackers(self) -> list[Any]:
        shapes = [meshes.headset(), meshes.controller(1.0), meshes.controller(-1.0)] + [meshes.puck()] * 3
        return [
            self._server.scene.add_mesh_simple(f"/{self.name}/trackers/{role}", v, f, color=DEVICE, visible=False)
            for role, (v, f) in zip(ROLES, shapes, strict=True)
        ]

    def _make_foot(self, side: str) -> Any:
        v, f = meshes.puck()
        flat = v * np.array([3.2, 3.2, 0.2], np.float32)
        return self._server.scene.add_mesh_simple(
            f"/{self.name}/feet/{side}", flat, f, color=PLANTED, opacity=0.6, cast_shadow=False, visible=False
        )
