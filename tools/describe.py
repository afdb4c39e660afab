"""Writes what the code says of itself: the files in config/, the tables of docs/graph.md and README.md."""

from pathlib import Path

from mm_ros.io.features import example_yaml
from mm_ros.ros import describe

top = Path(__file__).resolve().parents[1]
(top / "config" / "avatar.yaml").write_text(describe.parameters_yaml())
(top / "config" / "features.yaml").write_text(example_yaml())
for page in (top / "docs" / "graph.md", top / "README.md"):
    if page.exists():
        page.write_text(describe.filled(page.read_text()))
