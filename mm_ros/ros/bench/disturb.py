"""Change parameters of a running graph as a user does: `python -m mm_ros.ros.bench.disturb AVATAR`.

Every half second, this program changes the parameter `responsiveness` of the search, or resets the desired trajectory.
Every 4 s, the program switches the search from the database file to a copy of this file, or back.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rclpy
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from mm_ros.motion.default_database import default_database_path

PERIOD_S, PATIENCE_S = 0.5, 10.0


def main(words: list[str]) -> int:
    rclpy.init()
    node = rclpy.create_node("disturber", namespace=words[1])
    setting = node.create_client(SetParameters, "motion_matcher/set_parameters")
    reset = node.create_client(Trigger, "trajectory_predictor/reset")
    for client in (setting, reset):
        client.wait_for_service(PATIENCE_S)
    with tempfile.TemporaryDirectory(prefix="mm_ros_disturb") as folder:
        copy = Path(folder) / "copy.mmdb"
        shutil.copy(default_database_path(), copy)
        for turn in itertools.count():
            request: Any
            if turn % 4 == 1:
                client, request = reset, Trigger.Request()
            elif turn % 8 == 3:
                client, request = setting, changed("database", str(copy) if turn % 16 == 3 else "")
            else:
                client, request = setting, changed("responsiveness", 1.0 + turn % 3 * 0.1)
            asked = client.call_async(request)
            rclpy.spin_until_future_complete(node, asked, timeout_sec=PATIENCE_S)
            # The program sleeps, because `spin_once` would return before PERIOD_S, as soon as a parameter has changed.
            time.sleep(PERIOD_S)
    return 0


def changed(name: str, value: Any) -> SetParameters.Request:
    return SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except (KeyboardInterrupt, RuntimeError):  # After Ctrl-C, rclpy raises RCLError (a RuntimeError).
        sys.exit(0)
