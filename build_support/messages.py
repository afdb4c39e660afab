"""Build the messages with CMake against the ROS wheels of a Python environment.

Used by setup.py (`pip install .`) and by the Makefile (`make messages`, for a live checkout).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]


class BuildError(RuntimeError):
    """A build error; the text is a sentence, such as what this machine lacks."""


def ros_prefix() -> Path:
    """The environment that holds the ROS wheels: the venv itself, or pip's build environment."""
    try:
        import ament_package
    except ImportError:
        raise BuildError(
            f"the ROS wheels are not in the environment of {sys.executable}: ament_package was not found. "
            "Let pip build in isolation, or install what pyproject.toml lists under `requires`."
        ) from None
    assert ament_package.__file__
    # prefix/lib/python3.X/site-packages/ament_package/__init__.py
    for parent in Path(ament_package.__file__).resolve().parents:
        if (parent / "share" / "ament_index").is_dir():
            return parent
    raise BuildError(f"no ament index above {ament_package.__file__}: is that a ROS installation?")


def check_tools() -> None:
    missing = {
        "a C++ compiler": ("g++", shutil.which("c++") or shutil.which("g++") or os.environ.get("CXX")),
        "cmake": ("cmake", shutil.which("cmake")),
        "make or ninja": ("make", shutil.which("ninja") or shutil.which("make")),
        "the headers of Python": (
            f"python3.{sys.version_info.minor}-dev",
            (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file(),
        ),
    }
    absent = {what: package for what, (package, found) in missing.items() if not found}
    if absent:
        raise BuildError(
            f"mm_ros builds its messages, and this machine lacks {', '.join(absent)}. "
            f"On Debian and Ubuntu: sudo apt install {' '.join(absent.values())}"
        )


def repair_exports(prefix: Path) -> None:
    """Replace folders of the build machine in the wheels' CMake files, at which CMake would stop."""
    import numpy

    rules = (
        (re.compile(r"/opt/python/[\w.-]+/include/python3\.\d+\w?"), sysconfig.get_paths()["include"]),
        (re.compile(r"/opt/python/[^;\"]*?/numpy/_?core/include"), numpy.get_include()),
    )
    for path in prefix.glob("share/*/cmake/*Export.cmake"):
        old = path.read_text()
        new = old
        for pattern, folder in rules:
            new = pattern.sub(folder, new)
        if new != old:
            path.write_text(new)


def has_tf2_msgs() -> bool:
    """Whether a ROS installation provides tf2_msgs. `MM_ROS_TF2_MSGS=build|skip` overrides the check."""
    override = os.environ.get("MM_ROS_TF2_MSGS", "")
    if override:
        return override == "skip"
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
    return any((Path(p) / "share/ament_index/resource_index/packages/tf2_msgs").is_file() for p in prefixes)


def cmake_install(source: Path, build: Path, prefix: Path, *options: str) -> None:
    ros = ros_prefix()
    environment = {
        **os.environ,
        "AMENT_PREFIX_PATH": os.pathsep.join(filter(None, [str(ros), os.environ.get("AMENT_PREFIX_PATH")])),
        # CMake runs the generators as `python3`, which must be this Python with these packages.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    configure = [
        "cmake", "-S", str(source), "-B", str(build), *generator,
        f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DCMAKE_PREFIX_PATH={ros}", "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_TESTING=OFF", "--no-warn-unused-cli", f"-DPython3_EXECUTABLE={sys.executable}", *options,
    ]  # fmt: skip
    for command in (
        configure,
        ["cmake", "--build", str(build), "-j", jobs],
        ["cmake", "--install", str(build)],
    ):
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise BuildError(f"{' '.join(command[:2])} failed:\n{done.stdout[-8000:]}")


def build_all(build: Path, prefix: Path, *options: str) -> None:
    """Build the messages of mm_ros, and TFMessage when ROS lacks it, and install them below `prefix`."""
    check_tools()
    repair_exports(ros_prefix())
    cmake_install(SOURCE, build / "mm_ros", prefix, *options)
    if not has_tf2_msgs():
        cmake_install(SOURCE / "build_support" / "tf2_msgs", build / "tf2_msgs", prefix, *options)


def install_live(build: Path, prefix: Path) -> None:
    """Install the messages into the running venv; everything else is imported from this checkout."""
    build_all(build, prefix, "-DMM_ROS_INSTALL_PYTHON=OFF")
    packages = Path(sysconfig.get_paths()["purelib"])
    # Without an __init__.py this folder is only a portion of the package: the checkout's mm_ros, later on the path,
    # is imported and includes the messages by pkgutil.extend_path.
    (packages / "mm_ros" / "__init__.py").unlink(missing_ok=True)
    (packages / "mm_ros_checkout.pth").write_text(f"{SOURCE}\n")
    for folder in ("launch", "config", "rviz"):
        # A folder of linked files, because `ros2 launch` does not search linked folders.
        shared = prefix / "share" / "mm_ros" / folder
        if shared.is_symlink():
            shared.unlink()
        elif shared.is_dir():
            shutil.rmtree(shared)
        shared.mkdir(parents=True)
        for file in (f for f in (SOURCE / folder).iterdir() if f.is_file()):
            (shared / file.name).symlink_to(file)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the messages into the venv that runs this.")
    parser.add_argument("--build", type=Path, default=Path(sys.prefix) / "mm_ros_build", help="build folder")
    args = parser.parse_args()
    if sys.prefix == sys.base_prefix:
        print("this installs into a venv, but no venv is active", file=sys.stderr)
        return 2
    try:
        install_live(args.build.resolve(), Path(sys.prefix).resolve())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
