"""Replacement for `ros2 bag record -a` on machines without this command: `python -m mm_ros.ros.bench.record FILE`.

The program subscribes to every topic of the graph, with the reliability of the publisher, and writes all messages to
one file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import rclpy

from mm_ros.ros import graph
from mm_ros.ros.internals import WaitSet
from mm_ros.ros.qos import listener_qos, message_class

LOOK_S = 0.5


def main(words: list[str]) -> int:
    rclpy.init()
    node = rclpy.create_node("recorder")
    qos_of = {t.type: t.qos for t in graph.TOPICS.values()}
    heard: dict[str, Any] = {}
    with Path(words[1]).open("wb") as file, node.context.handle:
        look_s = 0.0
        while node.context.ok():
            if time.monotonic() > look_s:
                look_s = time.monotonic() + LOOK_S
                for name, (kind, *_) in node.get_topic_names_and_types():
                    if name not in heard and kind in qos_of:
                        heard[name] = node.create_subscription(
                            message_class(kind), name, lambda _: None, listener_qos(qos_of[kind]), raw=True
                        )
            waiting = WaitSet(len(heard), 0, 0, 0, 0, 0, node.context.handle)
            waiting.clear_entities()
            for subscription in heard.values():
                waiting.add_subscription(subscription.handle)
            waiting.wait(int(LOOK_S * 1e9)) if heard else time.sleep(LOOK_S)
            for subscription in heard.values():
                while (found := subscription.handle.take_message(subscription.msg_type, True)) is not None:
                    file.write(found[0])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except (KeyboardInterrupt, RuntimeError):  # rclpy raises RCLError (a RuntimeError) after Ctrl-C
        sys.exit(0)
