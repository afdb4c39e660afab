"""pip's way in: the messages are built by the same CMakeLists.txt that colcon uses."""

import re
import shutil
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.build import build

sys.path.insert(0, str(Path(__file__).parent))
from build_support.messages import BuildError, build_all

_SITE = "site-packages"


class BuildWithMessages(build):
    """Modules and messages to the package folder, libraries to the prefix's lib/, the rest to share/.

    The ROS wheels do the same, so the ament index finds the package.
    """

    def run(self) -> None:
        super().run()
        stage = Path(self.build_temp).resolve() / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        try:
            build_all(Path(self.build_temp).resolve(), stage, f"-DPYTHON_INSTALL_DIR={_SITE}")
        except BuildError as error:
            raise SystemExit(f"\nmm_ros: {error}\n") from None
        dead = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.c")
        shutil.copytree(stage / _SITE, self.build_lib, dirs_exist_ok=True, ignore=dead)
        self.distribution.data_files = _data_files(stage)


# What names folders of this build stays out: shell hooks, CMake exports with their headers, the path
# of the underlay. bin/mm_ros is pip's own entry point.
_KEPT = re.compile(
    r"lib/(lib[^/]+\.so|mm_ros/\w+)"
    r"|share/ament_index/resource_index/(packages|rosidl_interfaces|package_run_dependencies)/\w+"
    r"|share/(mm_ros|tf2_msgs)/(package\.xml|pyproject\.toml|(msg|launch|config|rviz)/.+)"
)


def _data_files(stage: Path) -> list[tuple[str, list[str]]]:
    folders: dict[str, list[str]] = {}
    for path in sorted(stage.rglob("*")):
        relative = path.relative_to(stage)
        if path.is_file() and _KEPT.fullmatch(relative.as_posix()):
            folders.setdefault(str(relative.parent), []).append(str(path))
    return list(folders.items())


class RefuseEditable(Command):
    user_options = (("dist-dir=", "d", ""),)
    initialize_options = finalize_options = lambda self: None

    def run(self) -> None:
        raise SystemExit(
            "\nmm_ros: no editable install, the messages have to be compiled. "
            "`make venv` makes a .venv in which this checkout is live.\n"
        )


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=PlatformDistribution,
    cmdclass={"build": BuildWithMessages, "editable_wheel": RefuseEditable},
    data_files=[("share/mm_ros", ["package.xml"])],
)
