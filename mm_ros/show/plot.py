"""Plot robot commands over time without the package matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command

COLUMNS, WIDTH, HEIGHT = 4, 260, 110


def write_plot(path: str | Path, names: Sequence[str], samples: Sequence[tuple[float, Any]]) -> None:
    """Write a picture with one small plot for each joint: the commanded angle [rad] over time [s]. Each of `samples` is
    a time [s] and the command at this time."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MmRosError(f"a plot needs pillow. Install it: {setup_command('viewer')}") from None
    times = np.array([t for t, _ in samples])
    values = np.array([command.positions for _, command in samples])
    rows = -(-len(names) // COLUMNS)
    picture = Image.new("RGB", (COLUMNS * WIDTH, rows * HEIGHT), "white")
    draw = ImageDraw.Draw(picture)
    span = max(float(times[-1] - times[0]), 1e-6)
    for k, name in enumerate(names):
        x0, y0 = k % COLUMNS * WIDTH + 10, k // COLUMNS * HEIGHT + 8
        v = values[:, k]
        low, high = float(v.min()), float(v.max())
        middle, half = (low + high) / 2, max((high - low) / 2, 0.05)
        x = x0 + (times - times[0]) / span * (WIDTH - 20)
        y = y0 + 55 - (v - middle) / half * 32
        draw.rectangle((x0, y0 + 18, x0 + WIDTH - 20, y0 + 92), outline=(200, 200, 205))
        if len(x) > 1:
            draw.line([(float(a), float(b)) for a, b in zip(x, y, strict=True)], fill=(40, 90, 180), width=2)
        draw.text((x0, y0), f"{name}  {low:.2f} … {high:.2f} rad, {span:.1f} s", fill=(30, 30, 35))
    picture.save(path)
