"""A humanoid robot given as URDF follows the avatar: joint_states, and the base on TF.

Its links are frames under `<avatar>/robot/`: start robot_state_publisher with `frame_prefix:=<avatar>/robot/`.
"""

from __future__ import annotations

from pathlib import Path

from geometry_msgs.msg import TransformStamped
from sensor_msgs.msg import JointState

from mm_ros.core.errors import MmRosError
from mm_ros.core.revolute import RevoluteRetargeter
from mm_ros.core.skeleton import Skeleton
from mm_ros.core.types import AvatarPose
from mm_ros.io.urdf import guess_map, read_urdf
from mm_ros.ros.conversions import header


class UserRobot:
    def __init__(self, path: str, t_pose: str, avatar: str, world: str) -> None:
        self._robot = read_urdf(path)
        self.text = Path(path).read_text(encoding="utf-8")
        self._map = guess_map(self._robot, angles(t_pose))
        if not self._map.chains:
            names = ", ".join(self._robot.moving) or "none"
            raise MmRosError(f"{path}: no joint has the name of a human's (hip, knee, elbow, …). Joints: {names}")
        self._base, self._world = f"{avatar}/robot/{self._robot.base}", world
        self._retarget: RevoluteRetargeter | None = None

    def wear(self, skeleton: Skeleton) -> None:
        self._retarget = RevoluteRetargeter(skeleton, self._robot, self._map)

    def step(self, pose: AvatarPose) -> tuple[JointState, TransformStamped]:
        assert self._retarget is not None
        moved = self._retarget.step(pose)
        state = JointState(header=header(pose.stamp_ns, ""), name=list(moved.angles))
        state.position = [float(a) for a in moved.angles.values()]
        base = TransformStamped(header=header(pose.stamp_ns, self._world), child_frame_id=self._base)
        p, q = base.transform.translation, base.transform.rotation
        p.x, p.y, p.z, q.w, q.x, q.y, q.z = (float(v) for v in moved.base)
        return state, base


def angles(text: str) -> dict[str, float]:
    """'joint=1.57, joint=-1.57'"""
    out = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            out[name.strip()] = float(value)
        except ValueError:
            raise MmRosError(f"urdf_t_pose: expected 'joint=radians', came '{part}'") from None
    return out
