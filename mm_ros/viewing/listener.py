"""A browser without eyes: takes all that the page would be sent, and draws nothing. For measuring what a viewer costs.

python -m mm_ros.viewing.listener PORT FILE: until Ctrl-C; then FILE says what came.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

CONNECT_S = 60.0


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
                f"ws://127.0.0.1:{port}", subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None
            )
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    with page:
        page.send(msgspec.msgpack.encode(camera))
        began, times, size = time.monotonic(), list[float](), 0
        try:
            while True:
                size += len(page.recv())
                times.append(time.monotonic() - began)
        except (KeyboardInterrupt, ConnectionClosed):  # the viewer may hear of the end before us
            pass
    recent = [t for t in times if t > times[-1] - 5.0]  # the first second brings the meshes
    return {"seconds": times[-1], "windows_per_s": len(recent) / 5.0, "megabytes": size / 1e6}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Path(sys.argv[2]).write_text(json.dumps(listen(int(sys.argv[1]))))
