"""A headless Chromium that renders without a GPU, and a port for its page."""

import shutil
import socket

CHROMIUM = shutil.which("chromium")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
