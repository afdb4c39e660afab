"""`python -m mm_ros` is the command `mm_ros`."""

import sys

from mm_ros.cli import main

sys.exit(main())
