"""Two network namespaces, joined by TAP devices and a relay that can delay, drop or cut off packets.

The relay replaces the kernel module netem, which some kernels lack.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def missing_rights() -> str:
    """Return the reason why this machine cannot make network namespaces, or "" if it can make them."""
    name = f"mmr{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces or TAP devices cannot be made here (rights of root?): {error}"
    return ""


class Link:
    """Link between the network namespaces `names[0]` (address 10.99.8.1) and `names[1]` (10.99.8.2)."""

    def __init__(self, seed: int = 0) -> None:
        self.delay_s, self.jitter_s, self.loss, self.cut = 0.0, 0.0, 0.0, False
        self.passed = self.dropped = 0
        self.names = [f"mmr{os.getpid()}{side}" for side in "ab"]
        self._random = random.Random(seed)
        self._ends = [self._end(i) for i in range(2)]
        self._stop = threading.Event()
        self._relay = threading.Thread(target=self._run, daemon=True)
        self._relay.start()

    def _end(self, i: int) -> int:
        namespace, device = self.names[i], f"{self.names[i]}t"  # unique, because it begins in the common namespace
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TAP | IFF_NO_PI))
        ip("netns", "add", namespace)
        ip("link", "set", device, "netns", namespace)
        ip("-n", namespace, "addr", "add", f"10.99.8.{i + 1}/24", "dev", device)
        for name in ("lo", device):
            ip("-n", namespace, "link", "set", name, "up")
        ip("-n", namespace, "route", "add", "224.0.0.0/4", "dev", device)
        return end

    def _run(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []
        count = 0
        while not self._stop.is_set():
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, end, frame = heapq.heappop(waiting)
                self._write(end, frame)
            patience = min(0.05, waiting[0][0] - now) if waiting else 0.05
            for ready in select.select(self._ends, [], [], max(0.0, patience))[0]:
                frame = os.read(ready, 65536)
                if self.cut or self._random.random() < self.loss:
                    self.dropped += 1
                    continue
                count += 1
                due = time.monotonic() + self.delay_s + self._random.uniform(0, self.jitter_s)
                heapq.heappush(waiting, (due, count, self._ends[ready == self._ends[0]], frame))

    def _write(self, end: int, frame: bytes) -> None:
        try:
            os.write(end, frame)
            self.passed += 1
        except OSError:  # the receiver's packet queue is full
            self.dropped += 1

    def command(self, side: int, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.names[side], *words]

    def close(self) -> None:
        self._stop.set()
        self._relay.join(2.0)
        for end in self._ends:
            os.close(end)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
