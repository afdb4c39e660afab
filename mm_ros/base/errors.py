"""`MmRosError`, the only exception class for mistakes of a user."""


class MmRosError(ValueError):
    """A mistake of the user. The text of the error states the given value, the expected value and the possible values.

    The command `mm_ros` prints the text of an MmRosError without a traceback and exits with code 2.
    """
