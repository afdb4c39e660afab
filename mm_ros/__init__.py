"""Motion matching for ROS 2: a full-body avatar from a headset and two controllers.

This module does not import ROS, because only the package `ros` needs it.
"""

import sys

# `python -m mm_ros…` puts the current folder first on the path, so that a downloaded numpy.py in this folder would be
# imported. Commands that `mm_ros` and `ros2 run` start have no such entry (mm_ros/base/own_python.py).
if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]

from mm_ros.base import ending

ending.during_imports()

import pkgutil  # noqa: E402

# In a source checkout this folder hides the installed package, and only the installed package contains the generated
# messages (`mm_ros.msg`). The path is extended, so that modules come from this folder and messages from the installed
# package.
__path__ = pkgutil.extend_path(__path__, __name__)

from mm_ros._version import __version__ as __version__  # noqa: E402
from mm_ros.base.cache import configure_numba  # noqa: E402

configure_numba()
