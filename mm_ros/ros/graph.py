"""Description of the ROS graph: the type and the QoS of each topic, and the inputs, outputs and settings of each node.

Nodes, launch files, `mm_ros up`, the tables in docs/ and the tests use this description. The module does not import
ROS.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.sessions.paths import KEPT
from mm_ros.trajectory import CONTROLS

LIVE = 5  # messages


@dataclass(frozen=True)
class Qos:
    """QoS of a topic: the values that the publisher offers, and those that the subscriptions of the nodes request.

    A publisher keeps `depth` messages, so that a reliable subscriber that stalls for 2 s loses no message. A listener
    that must receive each message keeps `depth` messages of each of `writers` publishers, because DDS counts the
    messages of all publishers together. The nodes keep only `live_depth` received messages, so that a node processes
    only the newest messages after a stall.
    """

    reliable: bool = True
    latched: bool = False  # transient local
    depth: int = KEPT
    live_depth: int = LIVE
    live_reliable: bool | None = None  # whether subscriptions of mm_ros are reliable; None: as the publisher
    writers: int = 1  # number of publishers at the full rate, of all avatars

    @property
    def listener_depth(self) -> int:
        return self.depth * self.writers


STREAM = Qos()
DRAWN = Qos(depth=64)  # 2 s at 30 Hz
TRACKERS = Qos(live_reliable=False)
LATCHED = Qos(latched=True, depth=1, live_depth=1)
COMMANDS = Qos(depth=1000)  # 2 s at 500 Hz
TF = Qos(live_depth=100, writers=36)  # of 12 avatars: tracker_bridge, pose_postprocessor, robot_follower
SENSOR = Qos(reliable=False, depth=LIVE)
CLOCK = Qos(depth=2000, live_reliable=False)  # A replay sends 100 Hz and a time with each message of the session.


@dataclass(frozen=True)
class Topic:
    """A topic of the ROS graph. A topic whose name does not begin with a slash is in the namespace of the avatar."""

    name: str
    type: str
    qos: Qos
    meaning: str
    rate: str = "rate of `trackers`"

    @property
    def in_world(self) -> bool:
        """Return whether the topic's messages are in the world frame; those of `landmarks` are in the frame of the
        camera."""
        return self.type.startswith("mm_ros/msg/") and self.name != "landmarks"


TOPICS: dict[str, Topic] = {
    t.name: t
    for t in (
        Topic("trackers", "mm_ros/msg/TrackerArray", TRACKERS, "poses of headset, controllers and body trackers in the world frame, after the validity gate"),
        Topic("calibration", "mm_ros/msg/Calibration", LATCHED, "the user's measurements: head height, arm span, offsets of the devices", "when it changes"),
        Topic("truth", "mm_ros/msg/AvatarPose", STREAM, "true body pose of a synthetic or mocap user, for comparison"),
        Topic("truth_skeleton", "mm_ros/msg/Skeleton", LATCHED, "skeleton of `truth`", "when it changes"),
        Topic("body_orientation", "mm_ros/msg/BodyOrientation", STREAM, "predicted facing of the pelvis with its standard deviation"),
        Topic("trajectory", "mm_ros/msg/Trajectory", STREAM, "position, velocity and facing of the body, and its desired trajectory at the times of `feature_layout`"),
        Topic("matched_pose", "mm_ros/msg/AvatarPose", STREAM, "pose that motion matching plays, before post-processing"),
        Topic("match", "mm_ros/msg/Match", STREAM, "clip and frame of `matched_pose`, its cost, and the reason for the choice"),
        Topic("skeleton", "mm_ros/msg/Skeleton", LATCHED, "the avatar's joints and the offsets between them, scaled to the user", "when it changes"),
        Topic("feature_layout", "mm_ros/msg/FeatureLayout", LATCHED, "features that the matcher compares, and the times at which it needs `trajectory`", "when it changes"),
        Topic("pose", "mm_ros/msg/AvatarPose", STREAM, "the avatar's final pose"),
        Topic("joint_targets", "sensor_msgs/msg/JointState", STREAM, "angles and velocities of the robot's joints that follow the avatar; this topic does not command the robot"),
        Topic("joint_states", "sensor_msgs/msg/JointState", STREAM, "same angles as `joint_targets`, for RViz and robot_state_publisher in the avatar's namespace"),
        Topic("robot_base", "geometry_msgs/msg/PoseStamped", STREAM, "base link of the robot that follows, at the scale of the robot"),
        Topic("joint_trajectory", "trajectory_msgs/msg/JointTrajectory", COMMANDS, "guarded commands for a JointTrajectoryController (`output: trajectory`)", "parameter `rate`"),
        Topic("joint_commands", "std_msgs/msg/Float64MultiArray", COMMANDS, "guarded commands for a position controller, in the order of `joints` (`output: position`)", "parameter `rate`"),
        Topic("robot_status", "std_msgs/msg/String", STREAM, "state of the commands, as a heartbeat: off, waiting, ramp, live, stopping or held, with the reason", "10 Hz"),
        Topic("deadman", "std_msgs/msg/Bool", SENSOR, "true while the deadman switch is pressed, false while it is not (`deadman: topic`)", "5 Hz or more"),
        Topic("grip_buttons", "sensor_msgs/msg/Joy", SENSOR, "grip buttons of the controllers, left then right (sources `openxr`, `webxr`, `steamvr`). 1: held; 0: released; −1: unknown, for example because the controller is lost"),
        Topic("/joint_states", "sensor_msgs/msg/JointState", SENSOR, "measured joints of the robot (parameter `robot_state_topic`)", "rate of the robot"),
        Topic("robot/robot_description", "std_msgs/msg/String", LATCHED, "URDF of the user's robot, whose links are frames below <avatar>/robot/", "when it changes"),
        Topic("robot_description", "std_msgs/msg/String", LATCHED, "URDF of the avatar as capsules", "when it changes"),
        Topic("markers", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: feet, trackers, facing, trajectories", "30 Hz, when subscribed"),
        Topic("markers/match", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: clip and cost as text, features, matched pose, candidates", "30 Hz, when subscribed"),
        Topic("markers/motion", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: the avatar's skeleton and velocity", "30 Hz, when subscribed"),
        Topic("markers/truth", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: true body of a synthetic or mocap user", "30 Hz, when subscribed"),
        Topic("markers/path", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: curve, key points and progress of the path that is walked", "30 Hz, when subscribed"),
        Topic("image", "sensor_msgs/msg/Image", SENSOR, "camera images for `pose_estimator`", "rate of the camera"),
        Topic("landmarks", "mm_ros/msg/Landmarks", STREAM, "body landmarks estimated from the camera images, in the camera's frame", "rate of the camera"),
        Topic("joy", "sensor_msgs/msg/Joy", SENSOR, "gamepad for `control:=joystick` or `keyboard`", "rate of the device"),
        Topic("cmd_vel", "geometry_msgs/msg/Twist", SENSOR, "velocity command for `control:=joystick` or `keyboard`", "rate of the device"),
        Topic("camera_heading", "std_msgs/msg/Float64", SENSOR, "direction of the camera [rad, 0 along x]; the sticks of `joy` are relative to it", "rate of the camera"),
        Topic("/goal_pose", "geometry_msgs/msg/PoseStamped", Qos(depth=1, live_depth=1), "RViz's 2D Goal Pose: `control:=path` walks there and turns to its heading", "when it changes"),
        Topic("/clicked_point", "geometry_msgs/msg/PointStamped", Qos(depth=LIVE, live_depth=LIVE), "RViz's Publish Point: `control:=path` walks there after the points before it", "when it changes"),
        Topic("path", "nav_msgs/msg/Path", Qos(depth=1, live_depth=1), "path for `control:=path`, as key points on the floor", "when it changes"),
        Topic("head_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "headset pose from another package, for source `topics`", "rate of the device"),
        Topic("left_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "left controller pose from another package, for source `topics`", "rate of the device"),
        Topic("right_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "right controller pose from another package, for source `topics`", "rate of the device"),
        Topic("reported_body", "tf2_msgs/msg/TFMessage", STREAM, "joints of the body that a headset's browser estimates by itself (source `webxr`, a switch on the page), for comparison; never used"),
        Topic("/tf", "tf2_msgs/msg/TFMessage", TF, "world frame → <avatar>/root → joints, world frame → <avatar>/tracker/…, and links of the user's robot"),
        Topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", STREAM, "health of each node: rate, latency, counts of dropped and refused messages, warnings", "1 Hz"),
        Topic("/clock", "rosgraph_msgs/msg/Clock", CLOCK, "simulated time of a replay", "100 Hz and once per message of the session, only from a replay with `--clock`"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class FrameSettings(Settings):
    """Parameters that every node of mm_ros has."""

    world_frame: str = setting(
        "map",
        "Name of the world frame, which is the parent of <avatar>/root on TF and the frame_id of messages in world "
        "coordinates.",
        live=False,
    )


@dataclass(frozen=True)
class Node:
    """A node of the ROS graph. `settings` lists the settings classes whose fields are the parameters of the node, as
    "module:Class"."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: tuple[str, ...]
    meaning: str
    controls: tuple[str, ...] = CONTROLS  # values of the launch argument `control` for which the node is started
    optional: bool = False  # True if the node is started only when an option asks for it

    def settings_types(self) -> tuple[Any, ...]:
        return tuple(_load(path) for path in self.settings)

    def node_class(self) -> Any:
        """Return the Python class of the node, for example MotionMatcher for the node `motion_matcher`."""
        return _load(f"mm_ros.ros.nodes.{self.name}:{self.name.title().replace('_', '')}")


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


NODES: tuple[Node, ...] = (
    Node(
        "tracker_bridge",
        ("head_pose", "left_pose", "right_pose", "pose", "skeleton"),
        ("trackers", "calibration", "truth", "truth_skeleton", "landmarks", "reported_body", "grip_buttons", "/tf"),
        (
            "mm_ros.ros.nodes.tracker_bridge:BridgeSettings",
            "mm_ros.tracking.gate:GateSettings",
            "mm_ros.tracking.hands:HandSettings",
            "mm_ros.tracking.calibration:CalibrationSettings",
            "mm_ros.tracking.mounting:MountingSettings",
        ),
        "reads the devices, converts poses to one clock and one frame, rejects implausible samples, calibrates",
        controls=("vr",),
    ),
    Node(
        "orientation_predictor",
        ("trackers", "landmarks", "calibration"),
        ("body_orientation",),
        ("mm_ros.facing.orientation:OrientationSettings", "mm_ros.facing.fusion:FusionSettings"),
        "predicts the facing of the pelvis by a network; camera landmarks or body trackers correct it",
        controls=("vr",),
    ),
    Node(
        "pose_estimator",
        ("image",),
        ("landmarks",),
        ("mm_ros.ros.nodes.pose_estimator:EstimatorSettings",),
        "estimates a person's landmarks in camera images with BlazePose",
        controls=("vr",),
        optional=True,
    ),
    Node(
        "trajectory_predictor",
        ("trackers", "body_orientation", "landmarks", "calibration", "feature_layout"),
        ("trajectory",),
        (
            "mm_ros.trajectory.from_trackers:TrajectorySettings",
            "mm_ros.steps.estimator:StepSettings",
            "mm_ros.ros.nodes.trajectory_predictor:StaleSettings",
        ),
        "predicts the desired trajectory from trackers and facing, and estimates the user's feet",
        controls=("vr",),
    ),
    Node(
        "joystick_control",
        ("joy", "cmd_vel", "camera_heading", "feature_layout", "pose", "skeleton"),
        ("trajectory",),
        (
            "mm_ros.trajectory.joystick:JoystickSettings",
            "mm_ros.ros.nodes.joystick_control:InputSettings",
            "mm_ros.ros.headset_page:PageSettings",
        ),
        "computes the desired trajectory from a gamepad, a Twist or keys on its page instead of trackers",
        controls=("joystick", "keyboard"),
    ),
    Node(
        "path_control",
        ("path", "/goal_pose", "/clicked_point", "feature_layout", "pose", "skeleton"),
        ("trajectory", "markers/path"),
        ("mm_ros.trajectory.path:PathSettings", "mm_ros.ros.headset_page:PageSettings"),
        "computes the desired trajectory from a path instead of trackers",
        controls=("path",),
    ),
    Node(
        "motion_matcher",
        ("trajectory", "calibration"),
        ("matched_pose", "match", "skeleton", "feature_layout"),
        ("mm_ros.matching.matcher:MatcherSettings", "mm_ros.ros.nodes.motion_matcher:DatabaseSettings"),
        "searches the pose database, plays the best match, moves the root along the desired trajectory",
    ),
    Node(
        "pose_postprocessor",
        ("matched_pose", "trackers", "calibration", "skeleton"),
        ("pose", "/tf", "robot_description"),
        ("mm_ros.pose.postprocess:PostSettings", "mm_ros.ros.nodes.pose_postprocessor:TfSettings"),
        "blends jumps (inertialization), puts head and hands on the trackers, locks the feet, publishes TF",
    ),
    Node(
        "robot_follower",
        ("pose", "skeleton", "/joint_states", "deadman", "joy", "grip_buttons"),
        ("joint_targets", "joint_states", "robot_base", "joint_trajectory", "joint_commands", "robot_status", "robot/robot_description", "/tf"),
        (
            "mm_ros.ros.nodes.robot_follower:RobotSettings",
            "mm_ros.robot.follow:FollowSettings",
            "mm_ros.robot.guard:GuardSettings",
        ),
        "lets a humanoid robot follow the avatar: limb directions, standing feet, limits; guarded commands",
        optional=True,
    ),
    Node(
        "visualizer",
        ("pose", "matched_pose", "truth", "trackers", "body_orientation", "trajectory", "match"),
        ("markers", "markers/match", "markers/motion", "markers/truth"),
        ("mm_ros.ros.nodes.visualizer:VisualizerSettings",),
        "publishes markers for RViz",
        optional=True,
    ),
    Node(
        "viewer",
        (
            "pose", "matched_pose", "truth", "trackers", "trajectory", "match", "landmarks", "skeleton", "truth_skeleton",
            "joint_targets", "robot_base",
        ),
        (),
        ("mm_ros.ros.nodes.viewer:ViewerSettings",),
        "serves an inspector page for all avatars to the browser",
        optional=True,
    ),
)


def node(name: str) -> Node:
    for n in NODES:
        if n.name == name:
            return n
    raise MmRosError(f"node '{name}' does not exist. Nodes: {', '.join(n.name for n in NODES)}")


def nodes_for(control: str = "vr", extra: Collection[str] = ()) -> tuple[Node, ...]:
    """Return the nodes to start if the avatar is steered by `control` (vr, joystick, keyboard or path). Nodes that need
    a request of the user (`optional`) are returned only if `extra` contains their names."""
    chosen = tuple(n for n in NODES if control in n.controls and (not n.optional or n.name in extra))
    if not any("trajectory" in n.outputs for n in chosen):
        raise MmRosError(f"control '{control}' does not exist. Controls: {', '.join(CONTROLS)}")
    return chosen
