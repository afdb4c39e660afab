"""Network reach of this process: this machine only, unless the user chooses otherwise."""

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
PORTS = 50  # a domain has 250 ports, of which each process uses four; the last domain has 136


def settle_reach(unless_said: str = "") -> None:
    """Set the environment of DDS; call it before `rclpy.init`. `unless_said` is the discovery range that is used unless
    the user has set one.

    With LOCALHOST alone Fast DDS does not search other machines, but it listens on every interface and answers any
    machine that sends to its ports. A profile of mm_ros binds Fast DDS to the loopback interface, unless the user has
    set another profile.
    """
    if unless_said:
        os.environ.setdefault(RANGE, unless_said)
    # Otherwise Fast DDS reads DEFAULT_FASTRTPS_PROFILES.xml from the current folder.
    os.environ.setdefault("SKIP_DEFAULT_XML_FILE", "1")
    present = Path(os.environ.get(PROFILES, ""))
    # the profile is that of mm_ros, possibly set by a parent process
    if present.name.startswith(OWN) and present.parent.name in ("config", "dds"):
        del os.environ[PROFILES]
    if os.environ.get(RANGE) == "LOCALHOST" and PROFILES not in os.environ:
        os.environ[PROFILES] = str(profile(os.getpid()))


def profile(pid: int) -> Path:
    """File of the DDS profile for a process: `this_machine.xml` with ports for data that depend on its id.

    A process that is started again after SIGKILL would get the ports of the killed one. Fast DDS makes a new queue in
    shared memory for such a port, but all other processes continue to fill the old queue, so their messages are lost.
    The other processes stop only after two checks, one per second, have found that the queue is not read.
    """
    common = share_folder() / "config" / "this_machine.xml"
    offset = 11 + 2 * (pid % PORTS)  # an odd number, because the ports for discovery are even
    own = writable_root() / "dds" / f"{OWN}_{offset}.xml"
    text = common.read_bytes().replace(b"<rtps>", b"<rtps><port><offsetd3>%d</offsetd3></port>" % offset, 1)
    with suppress(MmRosError, OSError):
        if not own.is_file() or own.read_bytes() != text:
            write_whole(own, text, 0o600)
        return own
    return common
