"""Plots the latencies that `mm_ros bench graph` has measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command


def plot(result: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise MmRosError(f"the plot needs matplotlib: {setup_command('plot')}") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for mode in (m for m in ("processes", "composed") if m in result):
        bare = {rate: floor.get("four_hops" if mode == "composed" else "four_hops_processes")
                for rate, floor in result["floor"]["rates"].items()}  # fmt: skip
        for label, figures in ((mode, result[mode]), (f"{mode}, bare transport", bare)):
            rates = list(figures)
            style = "--" if "bare" in label else "-"
            late = [figures[r]["latency_ms"]["p99"] for r in rates]
            left.plot([int(r) for r in rates], late, style, marker="o", label=f"{label}, p99")
    left.set(xlabel="rate (Hz)", ylabel="stamp to /tf in another process (ms)", title="latency")
    counts = list(result["avatars"])
    for key in ("p50", "p99"):
        late = [result["avatars"][n]["latency_ms"][key] for n in counts]
        right.plot([int(n) for n in counts], late, marker="o", label=key)
    right.axhline(11, color="grey", lw=0.8, ls=":")
    right.set(xlabel="avatars", ylabel="latency of the slowest avatar (ms)", title="avatars side by side, 90 Hz")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
