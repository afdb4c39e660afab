"""Print the name of each ROS node that is discovered via ROS_STATIC_PEERS, until the process is killed."""

import rclpy

rclpy.init()
node = rclpy.create_node("stranger")
known: set[str] = set()
while True:
    rclpy.spin_once(node, timeout_sec=0.1)
    for name, namespace in node.get_node_names_and_namespaces():
        if (full := f"{namespace}/{name}") not in known:
            known.add(full)
            print(full, flush=True)
