"""Write generated files: those in config/, rviz/avatar.rviz, and the tables of docs/graph.md and README.md."""

from pathlib import Path

from mm_ros.motion.feature_files import example_yaml
from mm_ros.ros import describe
from mm_ros.ros.rviz import rviz_config

top = Path(__file__).resolve().parents[1]
(top / "rviz" / "avatar.rviz").write_text(rviz_config(["avatar"]))
(top / "config" / "avatar.yaml").write_text(describe.parameters_yaml())
(top / "config" / "features.yaml").write_text(example_yaml())
for page in (top / "docs" / "graph.md", top / "README.md"):
    if page.exists():
        page.write_text(describe.filled(page.read_text()))
