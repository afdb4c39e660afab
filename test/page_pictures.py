"""Pixels of a colour in the picture of a page."""

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

SCENE_PX = 420  # width of the 3D scene, left of the panel


def pixels_of(page: Any, color: tuple[int, int, int]) -> np.ndarray:
    """Mask of the pixels of the 3D scene with about this hue."""
    picture = np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"), float)[:, :SCENE_PX]
    lit = picture / np.maximum(np.linalg.norm(picture, axis=2, keepdims=True), 1.0)
    return lit @ (np.array(color) / np.linalg.norm(color)) > 0.985
