"""Node `path_control`: computes `trajectory` at 60 Hz from a path or from clicks on the page, and publishes markers of
the path for RViz."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped
from nav_msgs.msg import Path

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.motion.features import default_layout
from mm_ros.ros import markers
from mm_ros.ros.foreign import goal_from_ros, headings_from_ros, path_from_ros, point_from_ros
from mm_ros.ros.headset_page import serve_page
from mm_ros.ros.node import AvatarNode
from mm_ros.trajectory.path import PathSettings, PathStage

PERIOD_S, DRAW_S = 1 / 60, 1 / 30
DRAWN_POINTS = 200  # maximum number of points of the path that the page draws


class PathControl(AvatarNode):
    NAME = "path_control"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._trajectory = self.publisher("trajectory")
        self._stage = PathStage(self.settings(PathSettings), default_layout().trajectory_times)
        self.follow_layout(self._stage.set_times)
        self.listen("path", self._on_path)
        self.listen("/goal_pose", self._on_goal)
        self.listen("/clicked_point", self._on_point)
        self._page = serve_page(self, facts=self._facts, actions={"goal": self._on_click})
        self._markers = self.publisher("markers/path")
        self.every(PERIOD_S, self._step)
        self.every(DRAW_S, self._draw)
        self.start()

    def _on_path(self, msg: Path) -> None:
        points = path_from_ros(msg, self.world_frame)
        headings = headings_from_ros(msg) if self.settings(PathSettings).headings else None
        self._stage.set_path(points, yaws=headings)

    def _on_goal(self, msg: PoseStamped) -> None:
        self._stage.go_to(*goal_from_ros(msg, self.world_frame))

    def _on_point(self, msg: PointStamped) -> None:
        self._stage.append(point_from_ros(msg, self.world_frame))

    def _on_click(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Let the avatar walk to the point that the user has clicked on the page. If the request of the page contains
        `add`, first walk to the points of earlier clicks."""
        try:
            point = np.array([float(request[k]) for k in "xy"])
        except (KeyError, TypeError, ValueError):
            raise MmRosError("goal: expected numbers x and y") from None
        plausible.check("goal", point, "position")
        if request.get("add"):
            self._stage.append(point)
        else:
            self._stage.go_to(point)
        return True, f"walks to {point[0]:.1f}, {point[1]:.1f}"

    def _facts(self) -> dict[str, Any]:
        points, following = self._stage.course()
        every = -(-len(points) // DRAWN_POINTS)
        drawn = np.concatenate([points[:-1:every], points[-1:]])
        keys = self._stage.keys[:DRAWN_POINTS]
        path = {"points": drawn.round(2).tolist(), "keys": keys.round(2).tolist(), "next": -(-following // every),
                "progress": round(self._stage.progress, 3)}  # fmt: skip
        return {"control": "path", "path": path}

    def _draw(self) -> None:
        if self._markers.get_subscription_count() and len(self._stage.keys) > 1:
            points, following = self._stage.course()
            drawn = markers.path("path", points, following, self._stage.keys, self._stage.progress)
            self._markers.publish(markers.array(drawn, self.now_ns(), self.world_frame))

    def _step(self) -> None:
        desired = self._stage.step(self.now_ns())
        if desired is not None:
            self._trajectory.publish(self.outputs.trajectory(desired))
            self.health.step(desired.stamp_ns)
            self.health.values["progress"] = f"{self._stage.progress:.2f}"

    def close(self) -> None:
        if self._page is not None:
            self._page.close()

    def reset(self) -> None:
        self._stage.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(PathSettings)
