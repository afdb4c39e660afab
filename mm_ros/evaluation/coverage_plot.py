"""Plot which velocities, turning rates and head heights occur in clips of motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.motion.summary import Summary, heat


def plot_coverage(summary: Summary, path: Path, title: str) -> None:
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
        from matplotlib.colors import LogNorm
    except ImportError:
        raise MmRosError(f"--plot needs matplotlib: {setup_command('plot')}") from None
    seconds, ahead, left = heat(summary)
    figure, (velocities, turning, heights) = pyplot.subplots(1, 3, figsize=(13, 5), layout="constrained")
    shown = np.ma.masked_equal(seconds, 0)
    picture = velocities.pcolormesh(
        left, ahead, shown, norm=LogNorm(0.05, max(float(seconds.max()), 0.1)), cmap="viridis"
    )
    velocities.invert_xaxis()  # positive velocities point left, so they are drawn on the left
    velocities.set(
        xlabel="left, m/s", ylabel="forward, m/s", title=f"{title}: {summary.seconds / 60:.1f} min", aspect="equal"
    )
    figure.colorbar(picture, ax=velocities, label="seconds")
    turning.hist2d(summary.speeds, np.degrees(summary.yaw_rates), bins=60, range=((0, 4), (-180, 180)), norm=LogNorm())
    turning.set(xlabel="speed, m/s", ylabel="turning, deg/s")
    heights.hist(summary.head_ratios, bins=80, range=(0.4, 1.15))
    heights.set(xlabel="head height relative to standing", ylabel="frames", yscale="log")
    try:
        figure.savefig(path, dpi=100)
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error
    finally:
        pyplot.close(figure)
