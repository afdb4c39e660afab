"""Limits the network communication of a ROS process to this machine, unless the user chooses otherwise."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mm_ros.base.cache import writable_root
from mm_ros.base.errors import MmRosError
from mm_ros.base.files import write_whole
from mm_ros.base.share import share_folder

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"
OWN = "this_machine"
PORTS = 50  # number of different port offsets of processes: a ROS domain has 250 ports, and a process uses four


def settle_reach(unless_said: str = "") -> None:
    """Set the environment variables of DDS; call `settle_reach` before `rclpy.init`. If the user has not set a
    discovery range, `unless_said` is used.

    With the discovery range LOCALHOST, Fast DDS does not search other machines, but still answers machines that send to
    its ports. A DDS profile of mm_ros therefore limits Fast DDS to the loopback interface, unless the user has set
    another DDS profile.
    """
    if unless_said:
        os.environ.setdefault(RANGE, unless_said)
    # If SKIP_DEFAULT_XML_FILE is not set, Fast DDS reads DEFAULT_FASTRTPS_PROFILES.xml from the current folder.
    os.environ.setdefault("SKIP_DEFAULT_XML_FILE", "1")
    present = Path(os.environ.get(PROFILES, ""))
    # The parent process may have set its own DDS profile of mm_ros, which is replaced.
    if present.name.startswith(OWN) and present.parent.name in ("config", "dds"):
        del os.environ[PROFILES]
    if os.environ.get(RANGE) == "LOCALHOST" and PROFILES not in os.environ:
        os.environ[PROFILES] = str(profile(os.getpid()))


def profile(pid: int) -> Path:
    """Write the DDS profile for the process `pid` and return its path: `this_machine.xml` with ports that depend on
    `pid`.

    The ports differ, because otherwise a process that replaces a killed one would use the ports of the killed process.
    Fast DDS makes a new queue in shared memory for the same port, but other processes would send messages to the old
    queue for about two more seconds.
    """
    common = share_folder() / "config" / "this_machine.xml"
    offset = 11 + 2 * (pid % PORTS)  # The offset is odd, because DDS uses the even ports for discovery.
    own = writable_root() / "dds" / f"{OWN}_{offset}.xml"
    text = common.read_bytes().replace(b"<rtps>", b"<rtps><port><offsetd3>%d</offsetd3></port>" % offset, 1)
    with suppress(MmRosError, OSError):
        if not own.is_file() or own.read_bytes() != text:
            write_whole(own, text, 0o600)
        return own
    return common
