"""`MmRosError`, the only exception class for mistakes of a user."""


class MmRosError(ValueError):
    """Error that a mistake of the user causes. The error's text states the given, the expected and the possible values.

    The command `mm_ros` prints the text of an MmRosError without a traceback and exits with code 2.
    """
