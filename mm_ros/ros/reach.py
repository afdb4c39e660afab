"""How far this process is heard: on this machine only, unless the user says otherwise."""

from __future__ import annotations

import os

from mm_ros.base.share import share_folder

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"


def settle_reach(unless_said: str = "") -> None:
    """Before `rclpy.init`. `unless_said` is the range where the environment has none.

    LOCALHOST alone keeps Fast DDS from looking for others, but it listens on every interface, and it answers whoever
    sends to its ports. A profile binds it to the loopback interface; a profile of the user's own stays.
    """
    if unless_said:
        os.environ.setdefault(RANGE, unless_said)
    # Fast DDS would read DEFAULT_FASTRTPS_PROFILES.xml from the current folder.
    os.environ.setdefault("SKIP_DEFAULT_XML_FILE", "1")
    ours = str(share_folder() / "config" / "this_machine.xml")
    if os.environ.get(RANGE) == "LOCALHOST":
        os.environ.setdefault(PROFILES, ours)
    elif os.environ.get(PROFILES) == ours:  # of the process that started this one
        del os.environ[PROFILES]
