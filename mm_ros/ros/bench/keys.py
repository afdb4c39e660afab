"""Measures the time from a key press in a real Chromium until the page receives the first pose that follows the key."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.ros.bench.webxr import FLAGS, START_S, await_page, browser, figures, own_address

KEYS = ("KeyW", "KeyA", "KeyS", "KeyD")
HELD_S = (0.15, 0.45)  # minimum and maximum of the random time [s] for which a key is held or released


def key_latency(
    processes: Any, port: int, presses: int, seed: int, database: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Press and release `presses` keys at random moments, and return statistics of the delays [ms] from a key press
    until the page receives the first pose that follows the key. The page draws nothing during the measurement."""
    sync_playwright, chromium = browser()
    url, rng = own_address(port), np.random.default_rng(seed)
    words = ["up", "--control", "keyboard", "-p", f"joystick_control.page_port={port}"]
    words += ["--database", str(database)] if database else []
    with processes:
        processes.start(*words)
        await_page(url, processes.check)
        with sync_playwright() as p:
            started = p.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
            try:
                page = started.new_page(viewport={"width": 200, "height": 150})
                page.goto(url)
                _await(page, "mmRosPage.avatar.ready && mmRosPage.placedBehind", processes.check)
                page.evaluate("() => { mmRosPage.room.renderer.render = () => {}; }")
                say(f"key to pose: {presses} keys in Chromium …")
                for i in range(presses + len(KEYS)):
                    if i == len(KEYS):  # the first press of each key is not counted
                        page.evaluate("mmRosPage.steering.back.length = 0")
                    for press in (page.keyboard.down, page.keyboard.up):
                        press(KEYS[i % len(KEYS)])
                        page.wait_for_timeout(1e3 * float(rng.uniform(*HELD_S)))
                back = page.evaluate("mmRosPage.steering.back")
            finally:
                started.close()
    return {"presses": presses, "answers": len(back), **figures(back)}


def _await(page: Any, condition: str, ended: Callable[[], str]) -> None:
    until = time.monotonic() + START_S
    while not page.evaluate(condition):
        if ended() or time.monotonic() > until:
            raise MmRosError("no avatar came to the page; see the messages above")
        page.wait_for_timeout(200)
