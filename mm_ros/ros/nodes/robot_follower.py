"""Node `robot_follower`: computes joint angles of a humanoid robot that follows `pose`, for RViz and, with safety
limits, for a real robot."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, String
from std_srvs.srv import SetBool

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.skeleton import Skeleton as CoreSkeleton
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import F64, AvatarPose, rest_pose
from mm_ros.msg import Skeleton
from mm_ros.robot.angles import parsed_angles
from mm_ros.robot.figure import read_figure
from mm_ros.robot.follow import FollowSettings, RobotState, make_follower
from mm_ros.robot.guard import HELD, LIVE, OFF, PRESS_AGAIN, RAMP, BaseGuard, Command, CommandGuard, GuardSettings
from mm_ros.robot.load import robot_text
from mm_ros.robot.roles import DISPUTED
from mm_ros.ros.conversions import header, skeleton_from_ros
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.senders import RATE_HZ, SonicSender, TopicSender, Twist2Sender
from mm_ros.ros.tf import RobotTf
from mm_ros.show.plot import write_plot

SKELETONS = 8
STATUS_S = 0.1
REPORT_S = 1.0
DEADMAN_S = 0.5  # The robot stops if the newest message of the deadman switch is older than `DEADMAN_S` [s].
MOST_DRY = 60_000  # maximum number of commands that a dry run stores for its plot
SONIC = ("sonic", "sonic_body", "sonic_planner")
FIXED_RATE = (*SONIC, "twist2")


@dataclass(frozen=True)
class RobotSettings(Settings):
    urdf: str = setting("", "Robot file (URDF, xacro or MJCF); the node does not start without it.", live=False)
    overrides: str = setting(
        "",
        "File robot.yaml with corrections of the robot file. If `overrides` is empty, a robot.yaml beside the robot "
        "file is used.",
        live=False,
    )
    urdf_t_pose: str = setting(
        "", "Joint angles of the robot in T-pose [rad], as 'joint=1.57', for `method: decompose`. If `urdf_t_pose` is "
            "empty, the angles of the T-pose are computed.", live=False,
    )
    link_tf: bool = setting(
        True, "Publish the robot's links on TF below <avatar>/robot/. Set `link_tf` to false if robot_state_publisher "
              "publishes the links.",
        live=False,
    )  # fmt: skip
    output: str = setting(
        "", "Receiver of the robot commands; if `output` is empty, no commands are sent. The values `trajectory` and "
            "`position` publish commands on the topics `joint_trajectory` and `joint_commands`. "
        "By ZeroMQ, `sonic` sends joint angles, `sonic_body` a body of the model SMPL, and `sonic_planner` the walking "
        "velocity and the poses of wrists and head. The value `twist2` writes commands to Redis.",
        choices=("", "trajectory", "position", *SONIC, "twist2"), live=False,
    )  # fmt: skip
    dry_run: bool = setting(
        True, "In a dry run, commands are only printed and plotted; if `dry_run` is false, commands are sent to the "
              "robot. Do a dry run before you first send commands.", live=False,
    )
    plot: str = setting(
        "",
        "PNG file to which a dry run writes a plot of the commands over time; if `plot` is empty, no plot is written.",
        live=False,
    )
    joints: str = setting(
        "", "Joints of the command, in the order of the robot's controller, separated by commas. If `joints` is "
        "empty, use the joints of the <ros2_control> tag in the robot file, or else all joints that follow the avatar.",
        live=False,
    )  # fmt: skip
    address: str = setting(
        "", "Network address for the outputs sonic… (default tcp://127.0.0.1:5556) and twist2 (default "
        "127.0.0.1:6379).", live=False,
    )
    robot_name: str = setting("g1", "Name of the robot in the Redis keys of the output `twist2`.", live=False)
    robot_state_topic: str = setting(
        "/joint_states", "Topic with the measured joints of the robot (sensor_msgs/JointState).", live=False
    )
    without_feedback: bool = setting(
        False,
        "Assume that the robot is in `start_pose` at the start, instead of reading its joint angles. Use "
        "`without_feedback` only for robots that report no joint angles.",
        live=False,
    )
    start_pose: str = setting(
        "", "Joint angles [rad] from which the robot starts if `without_feedback` is true, as 'joint=0.3, …'. Joints "
        "that `start_pose` does not name start at the angle 0.", live=False,
    )
    deadman: str = setting(
        "service",
        "Deadman switch that enables the robot commands. If `deadman` is service, a program must call the service "
        "`robot_follower/enable`. If `deadman` is topic, a program must publish on the topic `deadman`, at least five "
        "times a second: true while the switch is pressed, and false while it is not. If `deadman` is grip, the user "
        "must hold the grip buttons of the controllers (sources openxr, webxr, steamvr). If `deadman` is joy, the user "
        "must hold the button `deadman_button` of the gamepad.",
        choices=("service", "topic", "grip", "joy"), live=False,
    )  # fmt: skip
    deadman_hand: str = setting(
        "right", "Controller whose grip button must be held if `deadman` is grip.", choices=("left", "right", "both"),
        live=False,
    )
    deadman_button: int = setting(5, "Number of the gamepad button that must be held if `deadman` is joy.", "", 0, 63,
                                  live=False)


class RobotFollower(AvatarNode):
    NAME = "robot_follower"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._s = s = self.settings(RobotSettings)
        if not s.urdf:
            raise MmRosError("robot_follower: the parameter `urdf` is empty; expected a robot file")
        self._figure = read_figure(s.urdf, s.overrides or None)
        for text in self._figure.roles.warnings:
            self.get_logger().warning(text)
        if self._figure.roles.missing:
            self.get_logger().warning(f"{' and '.join(self._figure.roles.missing)} not found; the rest follows")
        self._skeletons: dict[int, CoreSkeleton] = {}
        self._follower = self._made(default_skeleton())
        self._follower.step(rest_pose(default_skeleton()))  # compiles the follower before the avatar's poses arrive
        self._latest: tuple[float, RobotState] | None = None
        self._targets, self._tf = self.publisher("joint_targets"), self.publisher("/tf")
        self._base = self.publisher("robot_base")
        self._states, self._status = self.publisher("joint_states"), self.publisher("robot_status")
        self._frames = RobotTf(self._figure.robot, f"{self.avatar}/robot/", self.world_frame, s.link_tf)
        description = robot_text(s.urdf)
        if description:
            self.publisher("robot/robot_description").publish(String(data=description))
        # Before the first message, it is unknown whether the deadman switch is pressed. The service starts as released.
        self._enabled: bool | None = False if s.deadman == "service" else None
        self._enabled_at = np.inf if s.deadman == "service" else -np.inf
        self._sender: Any = None
        self._guard: CommandGuard | None = None
        self._dry: list[tuple[float, Command]] = []
        if s.output:
            self._open_output()
        self.every(STATUS_S, self._publish_status)
        self.listen("skeleton", self._on_skeleton)
        self.listen("pose", self._step)
        self.start()

    def _made(self, skeleton: CoreSkeleton) -> Any:
        t_pose = parsed_angles(self._s.urdf_t_pose, "urdf_t_pose") if self._s.urdf_t_pose else None
        return make_follower(self._figure, skeleton, self.settings(FollowSettings), t_pose)

    # Following

    def _on_skeleton(self, msg: Skeleton) -> None:
        skeleton = skeleton_from_ros(msg)
        self._skeletons.pop(skeleton.hash, None)
        self._skeletons[skeleton.hash] = skeleton
        while len(self._skeletons) > SKELETONS:
            del self._skeletons[next(iter(self._skeletons))]

    def _step(self, pose: AvatarPose) -> None:
        if pose.skeleton != self._follower.skeleton.hash:
            if pose.skeleton not in self._skeletons:
                self.health.unpaired += 1
                self.health.passing["skeleton"] = f"poses refer to skeleton {pose.skeleton:x}, which was not received"
                return
            self._follower = self._made(self._skeletons[pose.skeleton])
        state = self._follower.step(pose)
        if not pose.stale:
            self._latest = time.monotonic(), state
            if isinstance(self._sender, SonicSender):
                self._sender.take(pose, self._follower.skeleton)
        elif self._guard is not None:
            self._guard.stop("the trackers are stale")
        if self._targets.get_subscription_count():
            self._targets.publish(joint_state(state))
        if self._states.get_subscription_count():
            self._states.publish(joint_state(state))
        if self._base.get_subscription_count():
            self._base.publish(base_pose(state, self.world_frame))
        self._tf.publish(self._frames.serialized(state.stamp_ns, state.base, self._all_angles(state)))
        self.health.step(pose.stamp_ns)

    def _all_angles(self, state: RobotState) -> dict[str, float]:
        return self._figure.robot.with_mimics(state.by_name())

    # Commands

    def _open_output(self) -> None:
        s, guard, roles, robot = self._s, self.settings(GuardSettings), self._figure.roles, self._figure.robot
        if roles.missing:
            raise MmRosError(
                f"output '{s.output}' is refused: {' and '.join(roles.missing)} not found in {s.urdf}. "
                "Check it: mm_ros robot info; correct it by a robot.yaml."
            )
        disputed = [j for j in roles.joints if roles.confidence.get(j, 1.0) <= DISPUTED]
        if disputed:
            raise MmRosError(
                f"output '{s.output}' is refused: names and geometry disagree on {', '.join(disputed[:5])}. "
                "State their roles in a robot.yaml."
            )
        if s.output in FIXED_RATE and guard.rate != RATE_HZ:
            raise MmRosError(f"output '{s.output}' needs rate {RATE_HZ:.0f} Hz, came {guard.rate:g}")
        order = self._order()
        if s.dry_run:
            self._sender = None
            order = self._fixed_order() or order
        elif s.output in SONIC:
            self._sender = SonicSender(self._figure, s.address or "tcp://127.0.0.1:5556", s.output, guard)
        elif s.output == "twist2":
            self._sender = Twist2Sender(self._figure, s.address or "127.0.0.1:6379", s.robot_name)
        else:
            topic = "joint_trajectory" if s.output == "trajectory" else "joint_commands"
            self._sender = TopicSender(self.publisher(topic), order, s.output, guard.rate)
        self._names = self._sender.order if self._sender else order
        lower = np.array([robot.joint(n).lower for n in self._names])
        upper = np.array([robot.joint(n).upper for n in self._names])
        start = None
        if s.without_feedback:
            given = parsed_angles(s.start_pose, "start_pose")
            for name in given:
                robot.joint(name)
            start = np.clip(np.array([given.get(n, 0.0) for n in self._names]), lower, upper)
        self._base_guard = BaseGuard(guard.rate)
        self._guard = CommandGuard(self._names, lower, upper, guard, start, obeys=not s.dry_run)
        if s.deadman == "service":
            self._guard.release()
        self._follow_index = [self._follower.names.index(n) if n in self._follower.names else -1 for n in self._names]
        self._moves = np.array([n in roles.joints for n in self._names])
        self._parked: F64 | None = start
        if s.deadman == "topic":
            self.listen("deadman", self._on_deadman)
        elif s.deadman == "joy":
            self.listen("joy", self._on_joy)
        elif s.deadman == "grip":
            self.listen("grip_buttons", self._on_grips)
        else:
            self.create_service(SetBool, f"{self.NAME}/enable", self._on_enable)
        if start is None:
            self.listen("/joint_states", self._on_robot_state, s.robot_state_topic)
        self.every(1 / guard.rate, self._command)
        self.every(REPORT_S, self._report_dry)
        text = "dry run: commands are printed and not sent" if s.dry_run else "COMMANDS ARE SENT when enabled"
        self.get_logger().info(f"output {s.output}, {len(self._names)} joints at {guard.rate:g} Hz; {text}")

    def _fixed_order(self) -> tuple[str, ...]:
        from mm_ros.robot import formats

        if self._s.output in SONIC:
            return formats.breadth_order(self._figure, "SONIC")
        return formats.limb_order(self._figure, "TWIST2") if self._s.output == "twist2" else ()

    def _order(self) -> tuple[str, ...]:
        robot = self._figure.robot
        named = tuple(n.strip() for n in self._s.joints.split(",") if n.strip())
        named = named or tuple(n for n in robot.controlled if n in robot.by_name)
        for n in named:
            robot.joint(n)
        if len(set(named)) != len(named):
            raise MmRosError("joints: a joint is named twice")
        return named or tuple(n for n in robot.moving if n in self._figure.roles.joints)

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        assert self._guard is not None
        self._enabled = bool(request.data)
        if not request.data:
            self._guard.release()
        response.success = not request.data or self._guard.accepts_a_press
        response.message = "commands ramp in" if request.data else "commands stop smoothly"
        if not response.success:
            response.message = f"{PRESS_AGAIN}: call this service with false, and then with true"
        return response

    def _on_deadman(self, msg: Bool) -> None:
        self._enabled, self._enabled_at = bool(msg.data), time.monotonic()

    def _on_joy(self, msg: Joy) -> None:
        i = self._s.deadman_button
        self._enabled, self._enabled_at = bool(msg.buttons[i]) if i < len(msg.buttons) else None, time.monotonic()

    def _on_grips(self, msg: Joy) -> None:
        hands = {"left": (0,), "right": (1,), "both": (0, 1)}[self._s.deadman_hand]
        grips = [msg.buttons[k] if len(msg.buttons) == 2 else -1 for k in hands]
        lost = min(grips) < 0 and 0 not in grips
        self._enabled, self._enabled_at = None if lost else all(grips), time.monotonic()

    def _on_robot_state(self, msg: JointState) -> None:
        assert self._guard is not None
        measured = dict(zip(msg.name, msg.position, strict=False))
        missing = [n for n in self._names if n not in measured]
        if missing or len(msg.position) < len(msg.name):
            self._guard.stop("the robot state lacks joints of the command")
            raise MmRosError(
                f"{self._s.robot_state_topic}: lacks the angles of {', '.join(missing[:5]) or 'its joints'}; "
                f"it must name all {len(self._names)} joints of the command"
            )
        angles = np.array([measured[n] for n in self._names])
        self._guard.measure(time.monotonic(), angles)
        if self._parked is None or self._guard.state in (OFF, HELD):
            self._parked = angles

    def _command(self) -> None:
        assert self._guard is not None
        now, target, rates, at = time.monotonic(), None, None, -np.inf
        if self._latest is not None and self._parked is not None:
            at, state = self._latest
            # Joints that do not follow the avatar, such as fingers, keep the angles that they had at the start.
            target = np.where(self._moves, state.angles[self._follow_index], self._parked)
            rates = np.where(self._moves, state.velocities[self._follow_index], 0.0)
        enabled = None if now - self._enabled_at >= DEADMAN_S else self._enabled
        before = self._guard.state
        command = self._guard.step(now, enabled, target, rates, at)
        if self._guard.state != before:
            self.get_logger().info(f"commands: {before} → {self._status_text()}")
        if command is None:
            return
        if self._sender is None:
            if len(self._dry) < MOST_DRY:
                self._dry.append((now, command))
        else:
            assert self._latest is not None  # the guard gives no command before the avatar's first pose
            base = self._base_guard.step(self._latest[1].base, command.runs)
            try:
                self._sender.send(command, base)
            except MmRosError as error:
                self._guard.stop(str(error))
                raise

    def _status_text(self) -> str:
        if self._guard is None:
            return OFF
        text = self._guard.state
        if self._guard.reason and text not in (RAMP, LIVE):
            text += f": {self._guard.reason}"
        return f"{text} (dry run)" if self._sender is None else text

    def _publish_status(self) -> None:
        """Publish the status of the commands; the receiver of the commands can stop the robot if no status arrives."""
        self._status.publish(String(data=self._status_text()))

    def _report_dry(self) -> None:
        if self._sender is None and self._dry and self._guard is not None and self._guard.state in (RAMP, LIVE):
            command = self._dry[-1][1]
            fastest = int(np.abs(command.velocities).argmax())
            shown = ", ".join(f"{n} {a:.2f}" for n, a in zip(self._names[:4], command.positions[:4], strict=True))
            self.get_logger().info(
                f"dry run: would send {len(self._names)} joints ({shown}, …); fastest {self._names[fastest]} "
                f"{command.velocities[fastest]:.2f} rad/s"
            )

    def reset(self) -> None:
        self._follower.reset()
        if self._guard is not None:
            self._guard.stop("the node was reset")

    def apply_settings(self) -> None:
        self._follower.settings = self.settings(FollowSettings)
        if self._guard is not None:
            self._guard.settings = self.settings(GuardSettings)
        if isinstance(self._sender, SonicSender):
            self._sender.body_guard.settings = self.settings(GuardSettings)

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()
        if self._s.plot and self._dry:
            write_plot(self._s.plot, self._names, self._dry)


def joint_state(state: RobotState) -> JointState:
    out = JointState(header=header(state.stamp_ns, ""), name=list(state.names))
    out.position, out.velocity = state.angles.tolist(), state.velocities.tolist()
    return out


def base_pose(state: RobotState, frame: str) -> PoseStamped:
    out = PoseStamped(header=header(state.stamp_ns, frame))
    p, q = out.pose.position, out.pose.orientation
    p.x, p.y, p.z, q.w, q.x, q.y, q.z = state.base.tolist()
    return out
