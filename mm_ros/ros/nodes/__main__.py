"""Entry point of `ros2 run mm_ros NODE`; the first command-line argument is the name of the node."""

import sys

from mm_ros.base.cache import configure_bytecode

configure_bytecode()

from mm_ros.base.ending import exit_by_code  # noqa: E402
from mm_ros.base.errors import MmRosError  # noqa: E402
from mm_ros.base.process import end_with_parent  # noqa: E402
from mm_ros.base.renamed import refuse_renamed_arguments  # noqa: E402
from mm_ros.ros import graph  # noqa: E402
from mm_ros.ros.node import keep_running  # noqa: E402


def main(words: list[str]) -> int:
    end_with_parent()
    try:
        name = words[1] if len(words) > 1 else ""
        made = graph.node(name).node_class()
        refuse_renamed_arguments(name, words)
        made.preload()
        return keep_running([[made]], words)
    except MmRosError as error:
        print(f"mm_ros: {error}", file=sys.stderr)
        return 2
    finally:
        exit_by_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
