"""Makes the command line that runs a module of mm_ros in a new Python process."""

import sys

# `python -m` is not used, because it would import a file `numpy.py` in the current folder instead of NumPy.
# The option `-P` of Python prevents imports from the current folder, but Python 3.10 does not have the option `-P`.
RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *words: str) -> list[str]:
    """Return a command line like `python -m MODULE WORDS…` that imports nothing from the current folder."""
    return [sys.executable, "-c", RUN_MODULE, module, *words]
