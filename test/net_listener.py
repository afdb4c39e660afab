"""`net_listener.py AVATAR`: print a line of JSON for each pose message that arrives, until the process is killed."""

import json
import sys
import time

import rclpy

from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros
from mm_ros.ros.qos import listener_qos, message_class


def tell(msg):
    pose = avatar_pose_from_ros(msg)  # raises an error for numbers that are not finite
    line = {"stamp": pose.stamp_ns * 1e-9, "at": time.time(), "root": pose.root[:2].tolist(), "stale": pose.stale}
    print(json.dumps(line), flush=True)


rclpy.init()
node = rclpy.create_node("listener", namespace=sys.argv[1])
topic = graph.TOPICS["pose"]
node.create_subscription(message_class(topic.type), topic.name, tell, listener_qos(topic.qos))
rclpy.spin(node)
