"""GMR (General Motion Retargeting) as a method of `mm_ros bench robot`, if GMR is installed.

GMR has a hand-written table for each robot that it supports, and takes poses of the skeleton of the LAFAN1 data. The
rotation between each joint of LAFAN1 and the same joint of mm_ros is constant, and is computed from the T-poses.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import NAMES, Skeleton
from mm_ros.body.types import AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import SIDES, Figure
from mm_ros.robot.follow import RobotState, t_pose_of
from mm_ros.robot.kinematics import LinkPoses

# Maps each joint of LAFAN1 to the joints of mm_ros from which it gets its position and its rotation.
HUMAN = {"Hips": ("hips", "hips"), "Spine2": ("upper_chest", "upper_chest")} | {
    f"{side.title()}{theirs}": (f"{side}_{place}", f"{side}_{turn}")
    for side in SIDES
    for theirs, place, turn in (
        ("UpLeg", "upper_leg", "upper_leg"), ("Leg", "lower_leg", "lower_leg"), ("FootMod", "foot", "toes"),
        ("Arm", "upper_arm", "upper_arm"), ("ForeArm", "lower_arm", "lower_arm"), ("Hand", "hand", "hand"),
    )
}  # fmt: skip
HEIGHT_ABOVE_HEAD_JOINT = 0.15  # distance from the head joint to the top of the head [m]


class GmrFollower:
    """Makes a robot follow the avatar's poses by GMR, with GMR's table for BVH files."""

    def __init__(self, figure: Figure, skeleton: Skeleton) -> None:
        try:
            import general_motion_retargeting as gmr
        except ImportError as error:
            raise MmRosError(
                f"the method gmr needs the Python package general_motion_retargeting of GMR ({error})"
            ) from None
        tables, files = gmr.IK_CONFIG_DICT["bvh"], gmr.ROBOT_XML_DICT
        same = [name for name in tables if Path(files[name]).resolve() == Path(figure.robot.source).resolve()]
        if not same:
            known = ", ".join(str(Path(files[name]).resolve()) for name in tables)
            raise MmRosError(f"GMR has no table for {figure.robot.source}; it has some for {known}")
        height = skeleton.head_height + HEIGHT_ABOVE_HEAD_JOINT
        self._solve = gmr.GeneralMotionRetargeting("bvh", same[0], actual_human_height=height)
        model = self._solve.model
        self.names = figure.robot.moving
        self._place = [int(model.joint(name).qposadr[0]) for name in self.names]
        state = t_pose_of(figure)
        links = LinkPoses(figure.robot)(state.by_name(), state.base)
        table = json.loads(Path(tables[same[0]]).read_text())["ik_match_table1"]
        self._constant = {
            human: rot.multiply(links[link][3:], rot.inverse(np.array(offset)))
            for link, (human, _, _, _, offset) in table.items()
        }

    def reset(self) -> None:
        """Do nothing, because GMR has no state except the robot's pose from which the next solution is searched."""

    def step(self, pose: AvatarPose) -> RobotState:
        positions, rotations = room_joints(pose)
        human = {}
        for name, constant in self._constant.items():
            place, turn = (NAMES.index(joint) for joint in HUMAN[name])
            human[name] = (positions[place], rot.multiply(rotations[turn], constant))
        found = self._solve.retarget(human)
        angles = found[self._place]
        return RobotState(pose.stamp_ns, found[:7].copy(), self.names, angles, np.zeros(len(angles)))
