"""`net_listener.py AVATAR`: a line of JSON for each pose that arrives, until killed. Runs in a namespace of its own."""

import json
import sys
import time

import rclpy

from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros
from mm_ros.ros.qos import listener_qos, message_class


def tell(msg):
    pose = avatar_pose_from_ros(msg)  # refuses what is not finite
    line = {"stamp": pose.stamp_ns * 1e-9, "at": time.time(), "root": pose.root[:2].tolist(), "stale": pose.stale}
    print(json.dumps(line), flush=True)


rclpy.init()
node = rclpy.create_node("listener", namespace=sys.argv[1])
topic = graph.TOPICS["pose"]
node.create_subscription(message_class(topic.type), topic.name, tell, listener_qos(topic.qos))
rclpy.spin(node)
