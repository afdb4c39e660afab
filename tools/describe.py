"""Writes what the code says of itself: config/avatar.yaml and the tables of docs/graph.md and README.md."""

from pathlib import Path

from mm_ros.ros import describe

top = Path(__file__).resolve().parents[1]
(top / "config" / "avatar.yaml").write_text(describe.parameters_yaml())
for page in (top / "docs" / "graph.md", top / "README.md"):
    if page.exists():
        page.write_text(describe.filled(page.read_text()))
