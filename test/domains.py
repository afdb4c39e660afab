"""Choose a DDS domain that no other test process on this machine uses."""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

DOMAINS = range(1, 101)  # Linux may give the ports of DDS domains above 101 to any program
_held: list[Any] = []


def own_domain() -> int:
    """Lock a free DDS domain until this process ends, and return the number of the domain."""
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
