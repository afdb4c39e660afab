"""`mm_ros calibrate`: count down, then call the calibration service of the node `tracker_bridge`."""

from __future__ import annotations

import argparse
import sys
import time

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_number, avatar

HELP = "measure the body of the user, who stands straight for three seconds"

EXAMPLE = """example:
  mm_ros calibrate                    measure the user and store the result in the user's file
  mm_ros calibrate --avatar anna --in 5
  mm_ros calibrate --measures         print the present measures and their uncertainties, and measure nothing

The tracker bridge's parameter `user` sets the name of the user. With the ROS command line, use instead:
  ros2 service call /avatar/calibrate std_srvs/srv/Trigger
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--avatar", type=avatar, default="avatar", help="namespace of the tracker bridge (default: %(default)s)"
    )
    add_number(
        parser,
        "--in",
        dest="delay",
        default=3.0,
        help="length of the countdown before the measurement (default: %(default)s)",
    )
    add_number(
        parser, "--timeout", default=10.0, help="maximum wait for the bridge and for its answer (default: %(default)s)"
    )


    parser.add_argument(
        "--measures", action="store_true", help="print the present measures and their uncertainties; measure nothing"
    )


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.reach import settle_reach

    settle_reach("LOCALHOST")
    return _show(args) if args.measures else _measure(args)


def _show(args: argparse.Namespace) -> int:
    import rclpy

    from mm_ros.msg import Calibration
    from mm_ros.ros.conversions import calibration_from_ros
    from mm_ros.ros.graph import LATCHED
    from mm_ros.ros.qos import listener_qos
    from mm_ros.tracking.calibration import in_words

    rclpy.init(args=[])
    try:
        came: list[Calibration] = []
        node = rclpy.create_node("calibrate", namespace=args.avatar)
        subscription = node.create_subscription(Calibration, "calibration", came.append, listener_qos(LATCHED))
        until = time.monotonic() + args.timeout
        while not came and (left := until - time.monotonic()) > 0:
            rclpy.spin_once(node, timeout_sec=left)
        if not came:
            raise MmRosError(
                f"no calibration on {subscription.topic_name} within {args.timeout:g} s: is the graph running "
                "(mm_ros up), and in this namespace (--avatar)?"
            )
    finally:
        rclpy.try_shutdown()
    now = calibration_from_ros(came[-1])
    print(f"{now.user}: {in_words(now)}" + ("" if now.calibrated else "; not measured yet"))
    return 0


def _measure(args: argparse.Namespace) -> int:
    import rclpy
    from std_srvs.srv import Trigger

    rclpy.init(args=[])
    try:
        node = rclpy.create_node("calibrate", namespace=args.avatar)
        client = node.create_client(Trigger, "calibrate")
        if not client.wait_for_service(args.timeout):
            raise MmRosError(
                f"no node offers {client.srv_name}: is the graph running (mm_ros up), and in this namespace (--avatar)?"
            )
        _count_down(args.delay)
        answer, until = None, time.monotonic() + args.timeout
        while answer is None and (left := until - time.monotonic()) > 0:
            # Repeat the call, because DDS drops the answer if the service has not yet discovered this client.
            future = client.call_async(Trigger.Request())
            rclpy.spin_until_future_complete(node, future, timeout_sec=min(left, 3.0))
            answer = future.result() if future.done() else None
        if answer is None:
            raise MmRosError(f"{client.srv_name} did not answer within {args.timeout:g} s")
    finally:
        rclpy.try_shutdown()
    print(
        answer.message if answer.success else f"calibration failed: {answer.message}",
        file=None if answer.success else sys.stderr,
    )
    return 0 if answer.success else 1


def _count_down(seconds: float) -> None:
    """Show a countdown of `seconds` + 3 s, because the calibration uses the samples of the last 3 s before the call."""
    print("Stand straight and still, and look ahead …", flush=True)
    end = time.monotonic() + seconds + 3.0
    while (left := end - time.monotonic()) > 0:
        print(f"\r{left:3.0f} ", end="", flush=True)
        time.sleep(min(1.0, left))
    print()
