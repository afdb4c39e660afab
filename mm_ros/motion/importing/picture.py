"""Draw a skeleton from the front and from the left side as SVG, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, TIPS, Skeleton
from mm_ros.maths import rotations as rot

Array = Any
_SCALE, _WIDTH, _HEIGHT = 150.0, 300, 330  # pixels per metre; width and height of a picture in pixels
LEFT, RIGHT, MIDDLE = "#2b6cb0", "#c05621", "#2d3748"


def skeleton_picture(skeleton: Skeleton, clip: Clip | None = None, title: str = "") -> str:
    """Return SVG text with pictures of the rest pose, and of the middle frame of `clip` if it is given."""
    views = [(skeleton.rest_positions().astype(np.float64), "rest pose")]
    if clip is not None:
        views.append((_middle(clip), f"{clip.name}, {len(clip) / 2 / clip.rate:.1f} s"))
    panels = [panel for p, name in views for panel in ((p, 1, f"{name}, front"), (p, 0, f"{name}, left side"))]
    width = _WIDTH * len(panels)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
    ]
    out.append(f'<rect width="{width}" height="{_HEIGHT}" fill="white"/><title>{_escaped(title)}</title>')
    for i, (p, across, name) in enumerate(panels):
        out += _panel(skeleton, p, across, i * _WIDTH, name)
    y = _HEIGHT - 6
    legend = f'<text x="8" y="{y}" fill="{LEFT}">left</text><text x="40" y="{y}" fill="{RIGHT}">right</text>'
    return "\n".join([*out, legend, "</svg>"]) + "\n"


def _middle(clip: Clip) -> Array:
    positions, rotations = (x[len(clip) // 2].astype(np.float64) for x in clip.globals())
    back = rot.inverse(rotations[0])
    return rot.rotate(np.broadcast_to(back, rotations.shape), positions - positions[0])


def _panel(skeleton: Skeleton, p: Array, across: int, x0: float, name: str) -> Sequence[str]:
    sign = -1.0 if across == 1 else 1.0

    def at(v: Array) -> tuple[float, float]:
        return x0 + _WIDTH / 2 - sign * (-1) * _SCALE * float(v[across]), _HEIGHT - 40 - _SCALE * float(v[2])

    out = [f'<text x="{x0 + 8}" y="16">{_escaped(name)}</text>']
    out.append(
        f'<line x1="{x0 + 10}" x2="{x0 + _WIDTH - 10}" y1="{_HEIGHT - 40}" y2="{_HEIGHT - 40}" stroke="#a0aec0"/>'
    )
    ends = [(p[skeleton.parents[j]], p[j], skeleton.names[j]) for j in range(2, len(skeleton))]
    ends.append((p[HEAD], p[HEAD] + np.array(TIPS["head"]), "head"))
    for a, b, joint in ends:
        (x1, y1), (x2, y2) = at(a), at(b)
        color = LEFT if joint.startswith("left") else RIGHT if joint.startswith("right") else MIDDLE
        out.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            'stroke-width="3" stroke-linecap="round"/>'
        )
        out.append(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="2.5" fill="{color}"/>')
    return out


def _escaped(text: str) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)  # SVG allows no control characters
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
