"""Find the pixels of a colour in a screenshot of a web page."""

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

SCENE_PX = 420  # width of the 3D scene in pixels; right of the scene is a panel


def pixels_of(page: Any, color: tuple[int, int, int]) -> np.ndarray:
    """Return a mask of the pixels in the page's 3D scene whose hue is close to that of `color`."""
    picture = np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"), float)[:, :SCENE_PX]
    lit = picture / np.maximum(np.linalg.norm(picture, axis=2, keepdims=True), 1.0)
    return lit @ (np.array(color) / np.linalg.norm(color)) > 0.985
