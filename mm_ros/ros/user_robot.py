"""Humanoid robot, given as URDF, that follows the avatar: joint_states, and TF below `<avatar>/robot/`.

Where robot_state_publisher is installed, the launch files start it with `frame_prefix:=<avatar>/robot/`. It then
publishes the links, and this module publishes only the base.
"""

from __future__ import annotations

from sensor_msgs.msg import JointState

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose
from mm_ros.robot.figure import read_figure
from mm_ros.robot.load import robot_text
from mm_ros.robot.revolute import RevoluteRetargeter, map_of
from mm_ros.ros.conversions import header
from mm_ros.ros.tf import RobotTf


class UserRobot:
    def __init__(self, path: str, t_pose: str, avatar: str, world: str, links: bool = True) -> None:
        figure = read_figure(path)
        self._robot = figure.robot
        self.text = robot_text(path)
        self._map = map_of(figure, angles(t_pose))
        self._tf = RobotTf(self._robot, f"{avatar}/robot/", world, links)
        self._retarget: RevoluteRetargeter | None = None

    def wear(self, skeleton: Skeleton) -> None:
        """Retarget from this skeleton from now on."""
        self._retarget = RevoluteRetargeter(skeleton, self._robot, self._map)

    def step(self, pose: AvatarPose) -> tuple[JointState, bytes]:
        """Return joint states and a serialized TFMessage."""
        assert self._retarget is not None
        moved = self._retarget.step(pose)
        state = JointState(header=header(pose.stamp_ns, ""), name=list(moved.angles))
        state.position = [float(a) for a in moved.angles.values()]
        return state, self._tf.serialized(pose.stamp_ns, moved.base, moved.angles)


def angles(text: str) -> dict[str, float]:
    """Parse 'joint=1.57, joint=-1.57' (rad)."""
    out = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            out[name.strip()] = float(value)
        except ValueError:
            raise MmRosError(f"urdf_t_pose: expected 'joint=radians', came '{part}'") from None
    return out
