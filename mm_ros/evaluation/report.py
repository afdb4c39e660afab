"""The HTML report of an evaluation: one file that contains all tables, SVG plots and pictures."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.files import write_whole
from mm_ros.body.skeleton import canonical_kinematics
from mm_ros.body.types import F64
from mm_ros.evaluation import measure, table
from mm_ros.evaluation.evaluate import Evaluation
from mm_ros.evaluation.run import Outcome
from mm_ros.show.film import figure
from mm_ros.show.render import BODY, GHOST, follow, render, write_gif

WORST = 10
FILM_RATE, FILM_SECONDS = 12.0, 12.0
BESIDE = np.array([0.0, 1.0, 0.0])

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}th{background:#f3f5f8}figure{display:inline-block;margin:.4em}
figcaption{font-size:13px;color:#555}svg{background:#fafbfc;border:1px solid #e3e6ea}h2{margin-top:2em}"""


def write_report(path: Path, evaluation: Evaluation) -> None:
    t, outcomes = evaluation.table, evaluation.outcomes
    what = f"{t['seconds']:.0f} s of motion in {len(t['clips'])} clips; hash of all poses <code>{t['hash']}</code>"
    parts = [f"<h1>mm_ros evaluate</h1><p>{what}</p>", _table(table.lines(t["summary"]))]
    if table.offset_lines(t["summary"]["ours"]):
        parts += ["<h2>Offsets of body trackers</h2>", _table(table.offset_lines(t["summary"]["ours"]))]
    if t["missing"]:
        parts.append(f"<p>Not measured: {html.escape(table.missing_line(t['missing']))}.</p>")
    if t["kinds"].get("ours"):
        parts += ["<h2>Row 'ours' by kind of motion</h2>", _table(table.kind_lines(t["kinds"]["ours"]))]
    parts += ["<h2>Database frames used</h2>", _heat(outcomes), "<h2>Largest errors</h2>", _worst(outcomes)]
    parts += [f"<h2>{html.escape(o.name)}</h2>{_plots(o)}" for o in outcomes[:40]]
    head = f"<!doctype html><meta charset=utf-8><title>mm_ros evaluate</title><style>{_STYLE}</style>"
    page = head + "\n".join(parts)
    write_whole(path, page.encode())


def _table(rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    return "<table>" + line(rows[0], "th") + "".join(line(r, "td") for r in rows[1:]) + "</table>"


def _plots(o: Outcome) -> str:
    ours = o.rows["ours"]
    out = [
        line_plot("facing error, degrees", [ours.by_frame.get(k) for k in (
            "predicted_facing_error_deg", "facing_error_deg")], ("predicted", "avatar"), 1.0),
        line_plot("root error, cm", [ours.by_frame.get(k) for k in ("root_error_m", "target_error_m")],
                  ("to the truth", "to the desired position"), 100.0),
    ]  # fmt: skip
    result = o.kept.get("result")
    if result is not None:
        flags = [result.pose.contacts[:, i] + 1.2 * (1 - i) for i in range(2)]
        out.append(line_plot("contacts (left above right)", flags, ("left", "right"), 1.0, 70))
    return "".join(p for p in out if p)


_COLORS = ("#3b82f6", "#e0743a")


def line_plot(title: str, series: Sequence[Any], names: Sequence[str], factor: float, height: int = 150) -> str:
    """Return an SVG plot of one or more curves over the frames of a clip. A plot with very many frames shows the
    maximum of each interval, so that it contains all peaks."""
    shown = [(np.asarray(s, np.float64) * factor, n) for s, n in zip(series, names, strict=True) if s is not None]
    if not shown:
        return ""
    width, top = 520, max(float(np.nanmax(s)) for s, _ in shown if len(s)) or 1.0
    lines, legend = [], []
    for k, (values, name) in enumerate(shown):
        step = max(1, len(values) // 500)
        thin = np.array([np.nanmax(values[i : i + step]) for i in range(0, len(values), step)])
        xs = np.linspace(0, width, len(thin))
        points = " ".join(f"{x:.1f},{height - 4 - (height - 22) * v / top:.1f}" for x, v in zip(xs, thin, strict=True))
        lines.append(f'<polyline fill="none" stroke="{_COLORS[k]}" stroke-width="1.3" points="{points}"/>')
        legend.append(f'<tspan fill="{_COLORS[k]}">{name} </tspan>')
    label = f'<text x="6" y="14" font-size="12">{html.escape(title)}, maximum {top:.1f}: {"".join(legend)}</text>'
    return f'<figure><svg width="{width}" height="{height}">{"".join(lines)}{label}</svg></figure>'


def _heat(outcomes: list[Outcome], cells: int = 120) -> str:
    frames = [o.kept["result"].frame for o in outcomes if "result" in o.kept]
    if not frames:
        return ""
    played = np.concatenate(frames)
    counts, _ = np.histogram(played, bins=cells, range=(0, played.max() + 1))
    shade = counts / max(counts.max(), 1)
    boxes = "".join(
        f'<rect x="{i * 8}" y="0" width="8" height="26" fill="rgb({255 - int(200 * s)},{255 - int(120 * s)},255)"/>'
        for i, s in enumerate(np.sqrt(shade))
    )
    return (
        f'<svg width="{cells * 8}" height="26">{boxes}</svg><p>{len(np.unique(played))} different frames in '
        f"{len(played)} samples; left: first frame of the database, right: last frame used</p>"
    )


def _worst(outcomes: list[Outcome]) -> str:
    """Return pictures of the moments with the largest facing and root errors: the true body (sand) beside the avatar
    (blue). Any two pictures are of moments that are at least 1 s apart."""
    moments = []
    for k, o in enumerate(outcomes):
        if not o.kept or o.kept.get("truth") is None:
            continue
        facing, root = o.rows["ours"].by_frame["facing_error_deg"], o.rows["ours"].by_frame["root_error_m"]
        badness = facing / 30 + root / 0.2
        at = peaks(badness, 60, WORST)
        moments += [(float(badness[i]), k, i, float(facing[i]), float(root[i])) for i in at]
    figures = []
    for _, k, i, facing_deg, root_m in sorted(moments, reverse=True)[:WORST]:
        o = outcomes[k]
        picture = _png(pair(o, i / measure.RATE))
        off = f"facing {facing_deg:.0f}°, root {root_m * 100:.0f} cm"
        text = f"{html.escape(o.name)} at {i / measure.RATE:.2f} s: {off}"
        figures.append(f'<figure><img src="data:image/png;base64,{picture}"><figcaption>{text}</figcaption></figure>')
    return "".join(figures) or "<p>The inputs have no truth to compare with.</p>"


def peaks(values: F64, apart: int, most: int) -> list[int]:
    """Return the frames of the `most` largest values that are at least `apart` frames from each other."""
    out: list[int] = []
    for i in np.argsort(-values, kind="stable"):
        if all(abs(int(i) - j) >= apart for j in out):
            out.append(int(i))
        if len(out) == most:
            break
    return out


def pair(o: Outcome, t: float, width: int = 340, height: int = 300) -> Any:
    """Return a picture of the avatar, and of the true body 1 m to its side, at `t` seconds of the clip."""
    result, truth = o.kept["result"], o.kept["truth"]
    i = int(np.clip(np.searchsorted(result.stamps_ns, result.stamps_ns[0] + t * 1e9), 0, len(result) - 1))
    local = [a[i].astype(np.float64) for a in (result.pose.positions, result.pose.rotations)]
    local[0][0], local[1][0] = result.pose.root[i, :3], result.pose.root[i, 3:]
    shapes = [figure(o.kept["skeleton"], *canonical_kinematics(*local), BODY)]
    if truth is not None:
        f = min(round(t * measure.RATE), len(truth.positions) - 1)
        there = [np.asarray(a[f], np.float64) for a in (truth.positions, truth.rotations)]
        shapes.append(figure(o.kept["skeleton"], there[0], there[1], GHOST, BESIDE))
    x, y = result.pose.root[i, :2]
    camera = follow(float(x), float(y) + 0.5 * (len(shapes) - 1), 4.2, bearing=-0.5)
    return render(shapes, camera, width, height)


def _png(picture: Any) -> str:
    try:
        from PIL import Image
    except ImportError:
        raise MmRosError(f"pictures need pillow: {setup_command('viewer')}") from None
    data = BytesIO()
    Image.fromarray(picture).save(data, format="PNG")
    return base64.b64encode(data.getvalue()).decode()


def write_video(path: Path, o: Outcome) -> None:
    """Write a GIF that shows the avatar and the true body side by side for at most FILM_SECONDS."""
    seconds = min(o.seconds, FILM_SECONDS)
    write_gif(path, [pair(o, t) for t in np.arange(0, seconds, 1 / FILM_RATE)], FILM_RATE)
