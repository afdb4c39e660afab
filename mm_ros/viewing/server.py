"""viser's web server, at the port that was asked for."""

from __future__ import annotations

import atexit
import io
import socket
from contextlib import redirect_stdout
from typing import Any

from mm_ros.core.errors import MmRosError
from mm_ros.extras import setup_command


def serve(host: str, port: int) -> Any:
    try:
        import viser
    except ImportError:
        raise MmRosError(f"the viewer needs viser: {setup_command('viewer')}") from None
    with socket.socket() as probe:  # viser would take another port in silence
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            where = f"{host}:{port} ({error.strerror})"
            raise MmRosError(f"cannot serve the page at {where}; choose another --host or --port") from None
    server = viser.ViserServer(host, port, verbose=False)
    atexit.unregister(server.stop)
    atexit.register(stop, server)
    return server


def stop(server: Any) -> None:
    """viser prints a line of its own from another thread while it stops."""
    atexit.unregister(stop)
    with redirect_stdout(io.StringIO()):
        server.stop()
