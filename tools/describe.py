"""Writes what the code says of itself: config/avatar.yaml, rviz/avatar.rviz, tables of docs/graph.md and README.md."""

from pathlib import Path

from mm_ros.ros import describe
from mm_ros.ros.rviz import rviz_config

top = Path(__file__).resolve().parents[1]
(top / "rviz" / "avatar.rviz").write_text(rviz_config(["avatar"]))
(top / "config" / "avatar.yaml").write_text(describe.parameters_yaml())
for page in (top / "docs" / "graph.md", top / "README.md"):
    if page.exists():
        page.write_text(describe.filled(page.read_text()))
