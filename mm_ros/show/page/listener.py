"""Test client of the inspector page, which receives all messages without drawing them, to measure the load of a viewer.

`python -m mm_ros.show.page.listener PORT FILE` runs until Ctrl-C, and then writes statistics to FILE. The environment
variable MM_ROS_PAGE_TOKEN must contain the token of the inspector page.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import deque
from pathlib import Path

from mm_ros.web.access import session_token

CONNECT_S, RECENT_S = 60.0, 5.0
BONE = b"SetBoneOrientationMessage"


def listen(port: int) -> dict[str, float]:
    import msgspec
    import viser
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    camera = {
        "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.5, -2.7, 1.6), "fov": 0.75,
        "near": 0.01, "far": 1000.0, "image_height": 720, "image_width": 1280, "look_at": (0.0, 0.0, 0.9),
        "up_direction": (0.0, 0.0, 1.0),
    }  # fmt: skip
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            page = connect(
                f"ws://127.0.0.1:{port}/{session_token()}", subprotocols=[f"viser-v{viser.__version__}"],
                max_size=None, compression=None,
            )  # fmt: skip
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    with page:
        page.send(msgspec.msgpack.encode(camera))
        began, size = time.monotonic(), 0
        came: deque[tuple[float, bytes]] = deque(maxlen=1000)
        try:
            while True:
                came.append((time.monotonic() - began, page.recv()))
                size += len(came[-1][1])
        except (KeyboardInterrupt, ConnectionClosed):  # the viewer may end before the test client
            pass
    last = came[-1][0]
    # Rates are those of the last RECENT_S seconds, because the viewer sends large meshes at the start.
    recent = [window for at, window in came if at > last - RECENT_S]
    frames = sum(BONE in window_text(w) for w in recent)
    return {
        "seconds": last, "megabytes": size / 1e6, "windows_per_s": len(recent) / RECENT_S,
        "frames_per_s": frames / RECENT_S,
    }  # fmt: skip


def window_text(window: bytes) -> bytes:
    """Return the decompressed messages of one data block that viser sends. The block consists of two lengths,
    compressed messages, and arrays."""
    import zstandard

    return bytes(zstandard.ZstdDecompressor().decompress(window[16:], int.from_bytes(window[:8], "little")))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Path(sys.argv[2]).write_text(json.dumps(listen(int(sys.argv[1]))))
