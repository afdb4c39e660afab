"""A folder of Python files named like modules that mm_ros imports; an import of one of the files leaves a mark."""

from pathlib import Path

NAMES = (
    "numpy", "yaml", "rclpy", "mm_ros", "json", "runpy", "pkgutil", "pickle", "socket", "numba", "argparse",
    "onnxruntime", "rosbags", "logging", "platform", "tempfile",
)  # fmt: skip


class HostileFolder:
    def __init__(self, path: Path) -> None:
        self.path, self._marks = path, path / "imported"
        path.mkdir()
        for name in NAMES:
            (path / f"{name}.py").write_text(
                f"import os\nwith open({str(self._marks)!r}, 'a') as marks:\n    marks.write('{name} ')\n"
            )

    def imported(self) -> list[str]:
        return self._marks.read_text().split() if self._marks.exists() else []
