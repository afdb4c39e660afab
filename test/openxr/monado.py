"""The OpenXR service Monado with its driver `remote`, to which a test sends the device poses over TCP.

A packet is `struct r_remote_data` of Monado 25.0.0 with 376 bytes: header, head, left and right controller. Each pose
is a quaternion x, y, z, w and a position x, y, z, in the axes of OpenXR.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from pathlib import Path

PORT = 4242
HEADER = b"mndrmt3\0"
CENTER = 8 + 96  # byte at which the head's pose begins, after the header and two views of 48 bytes
LEFT, RIGHT = 8 + 128, 8 + 128 + 120
SQUEEZE = 28 + 24 + 20 + 4  # byte of the grip button (0 to 1) in a controller's data
ACTIVE = 28 + 24 + 20 + 32 + 1  # byte of a controller's data that states whether the controller is active
SIZE = 376


class Service:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        environment = dict(os.environ, XRT_COMPOSITOR_NULL="1", XRT_NO_STDIN="1", P_OVERRIDE_ACTIVE_CONFIG="remote")
        self.log = self.folder / "monado.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                ["monado-service"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"monado-service did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _listens(self) -> bool:
        return (self.folder / "monado_comp_ipc").exists() and f":{PORT:04X}" in Path("/proc/net/tcp").read_text()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        (self.folder / "monado_comp_ipc").unlink(missing_ok=True)
        (self.folder / "monado.pid").unlink(missing_ok=True)


class Remote:
    """Connection to Monado's driver `remote`, by which a test sets the poses of headset and controllers."""

    def __init__(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", PORT), timeout=5)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receive(SIZE)  # Monado first sends the packet that would reset its state
        self._packet = bytearray(self._receive(SIZE))  # the latest
        self._packet[:8] = HEADER

    def _receive(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            got = self._socket.recv(size - len(out))
            if not got:
                raise RuntimeError("Monado closed the connection")
            out += got
        return out

    def send(self, head, left, right, left_active: bool = True, right_active: bool = True, grips=(0.0, 0.0)) -> None:
        """Send the poses of headset and controllers (quaternion x, y, z, w, then position x, y, z) in OpenXR axes."""
        struct.pack_into("<7f", self._packet, CENTER, *head)
        controllers = ((LEFT, left, left_active, grips[0]), (RIGHT, right, right_active, grips[1]))
        for at, pose, active, grip in controllers:
            struct.pack_into("<7f", self._packet, at, *pose)
            struct.pack_into("<f", self._packet, at + SQUEEZE, grip)
            self._packet[at + ACTIVE] = active
        self._socket.sendall(self._packet)

    def close(self) -> None:
        self._socket.close()
