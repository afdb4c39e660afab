"""A DDS domain that no other test process of this machine uses, whatever else runs there."""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

DOMAINS = range(1, 101)  # the ports of a domain above 101 are those that Linux gives to any program
_held: list[Any] = []


def own_domain() -> int:
    """The first domain that is not locked. The lock ends with this process."""
    folder = Path(tempfile.gettempdir()) / f"mm_ros-test-domains-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for i in range(len(DOMAINS)):
        domain = DOMAINS[(os.getpid() + i) % len(DOMAINS)]
        handle = (folder / str(domain)).open("w")
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _held.append(handle)
            return domain
        handle.close()
    raise RuntimeError(f"{len(DOMAINS)} test processes have a domain each; no one is left for this one ({folder})")
