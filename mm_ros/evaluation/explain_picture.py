"""Picture that shows the winner of a search and the next best candidates side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mm_ros.evaluation.explain import Explanation
from mm_ros.motion.database import MotionDatabase
from mm_ros.show.film import figure
from mm_ros.show.render import ACCENT, BODY, GHOST, contact_sheet, follow, render, write_png


def write_picture(path: Path, database: MotionDatabase, e: Explanation) -> None:
    """Write the picture of a search. The winner is blue, the frame played just before the search is orange, and the
    next best candidates are sand-coloured."""
    shown = [(e.winner.frame, BODY)]
    shown += [(e.current.frame, ACCENT)] if e.current else []
    shown += [(c.frame, GHOST) for c in e.runners_up]
    pictures = []
    for frame, color in shown:
        p, q = np.array(database.positions[frame], np.float64), np.array(database.rotations[frame], np.float64)
        p[0], q[0] = 0.0, (1.0, 0.0, 0.0, 0.0)
        body = figure(database.skeleton, *database.skeleton.kinematics(p, q), color)
        pictures.append(render([body], follow(0, 0, 3.4), 240, 300))
    write_png(path, contact_sheet(pictures, len(pictures)))
