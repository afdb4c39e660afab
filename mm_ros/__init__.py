"""Motion matching for ROS 2: a full-body avatar from a headset and two controllers.

The package `mm_ros` does not import ROS, because only its subpackage `ros` needs ROS.
"""

import sys

# `python -m` puts the current folder first on the import path, from which it is removed here, so that a file numpy.py
# in this folder is not imported. Processes that `mm_ros` and `ros2 run` start do not have the current folder on their
# import path (mm_ros/base/own_python.py).
if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]

from mm_ros.base import ending

ending.during_imports()

import pkgutil  # noqa: E402

# In a source checkout this folder hides the installed package, but only the installed package contains the generated
# messages (`mm_ros.msg`), so the search path of the package is extended: Python then finds modules in this folder and
# messages in the installed package.
__path__ = pkgutil.extend_path(__path__, __name__)

from mm_ros._version import __version__ as __version__  # noqa: E402
from mm_ros.base.cache import configure_numba  # noqa: E402

configure_numba()
