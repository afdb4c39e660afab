"""Command that runs a module of mm_ros in a new process of this Python."""

import sys

# Not `-m`: that searches the current folder first, so that a numpy.py in a downloaded folder would be imported.
# `-P` prevents this from Python 3.11 on; in 3.10 this code does so. It may import `sys` first, because `sys` is
# compiled into Python.
RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *words: str) -> list[str]:
    """Command like `python -m MODULE WORDS…` that imports nothing from the current folder."""
    return [sys.executable, "-c", RUN_MODULE, module, *words]
