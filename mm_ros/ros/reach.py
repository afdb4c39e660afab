"""Network reach of this process: this machine only, unless the user chooses otherwise."""

from __future__ import annotations

import os

from mm_ros.base.share import share_folder

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"


def settle_reach(unless_said: str = "") -> None:
    """Set the environment of DDS; call it before `rclpy.init`. `unless_said` is the default discovery range.

    With LOCALHOST alone Fast DDS does not search other machines, but it listens on every interface and answers any
    machine that sends to its ports. A profile binds it to the loopback interface; the user's own profile stays.
    """
    if unless_said:
        os.environ.setdefault(RANGE, unless_said)
    # Otherwise Fast DDS reads DEFAULT_FASTRTPS_PROFILES.xml from the current folder.
    os.environ.setdefault("SKIP_DEFAULT_XML_FILE", "1")
    ours = str(share_folder() / "config" / "this_machine.xml")
    if os.environ.get(RANGE) == "LOCALHOST":
        os.environ.setdefault(PROFILES, ours)
    elif os.environ.get(PROFILES) == ours:  # a parent process with LOCALHOST has set this profile
        del os.environ[PROFILES]
