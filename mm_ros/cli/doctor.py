"""`mm_ros doctor`: check the installation and print what to do about missing parts."""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mm_ros.base.extras import setup_command
from mm_ros.cli.output import add_json, write_json

HELP = "check the installation: show what is present, what is missing and how to add it"

OK, LACKS, BROKEN = "ok", "lacks", "broken"


@dataclass(frozen=True)
class Finding:
    """Result of one check of the installation. `state` is OK, LACKS (an optional part is missing) or BROKEN (the demo
    cannot run)."""

    topic: str
    state: str
    text: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros doctor --json doctor.json\nThe exit code is 0 when the demo can run."
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    findings = [_safely(topic, check) for topic, check in CHECKS.items()]
    ready = all(finding.state != BROKEN for finding in findings)
    for finding in findings:
        mark = {OK: "✓", LACKS: "–", BROKEN: "✗"}[finding.state]
        print(f"{mark} {finding.topic:<10} {finding.text}")
        if finding.advice:
            print(f"{'':13}→ {finding.advice}")
    print("The demo can run: mm_ros demo" if ready else "The demo cannot run yet: see ✗ above.")
    write_json(args.json, {"ready": ready, "findings": [asdict(finding) for finding in findings]})
    return 0 if ready else 1


def _safely(topic: str, check: Callable[[], tuple[str, str, str]]) -> Finding:
    """Run one check of the installation and return its result; an exception in the check becomes a Finding, too."""
    try:
        return Finding(topic, *check())
    except Exception as error:
        return Finding(
            topic, BROKEN, f"{type(error).__name__}: {error}", "this is a bug in mm_ros; please report it"
        )


def check_python() -> tuple[str, str, str]:
    version = f"Python {platform.python_version()} on {platform.platform(terse=True)}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return BROKEN, version, "mm_ros supports Python 3.10 to 3.13"
    missing = [
        name for name in ("numpy", "numba", "onnxruntime", "rosbags", "yaml", "rich") if not _has(name)
    ]
    if missing:
        return (
            BROKEN,
            f"{version}; {', '.join(missing)} not installed",
            f"{_pip()} install {' '.join(missing)}",
        )
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "onnxruntime")
    )
    return OK, f"{version}; {versions}", ""


def check_ros() -> tuple[str, str, str]:
    if not _has("rclpy"):
        return (
            BROKEN,
            "no rclpy in this Python",
            "source /opt/ros/jazzy/setup.bash, or run `pip install .`, which installs rclpy too",
        )
    # `import rclpy` succeeds even without the shared libraries of ROS, which only the extension module of rclpy needs.
    try:
        importlib.import_module("rclpy.impl.implementation_singleton")
    except ImportError as error:
        return (
            BROKEN,
            f"rclpy does not load: {error}",
            "the sourced ROS needs another version of Python: use that version",
        )
    distribution = os.environ.get("ROS_DISTRO")
    if distribution:
        advice = (
            ""
            if distribution in ("jazzy", "kilted", "rolling")
            else "mm_ros is made for Jazzy; other distributions may work"
        )
        return OK, f"ROS 2 {distribution} is sourced", advice
    return OK, "rclpy of Jazzy is installed from wheels; no ROS installation is sourced", ""


def check_middleware() -> tuple[str, str, str]:
    if not _has("rclpy"):
        return BROKEN, "no middleware without rclpy", ""
    import rclpy
    from rclpy.context import Context

    context = Context()
    try:
        rclpy.init(context=context)
        name = rclpy.get_rmw_implementation_identifier()
    except Exception as error:
        chosen = os.environ.get("RMW_IMPLEMENTATION", "")
        advice = f"RMW_IMPLEMENTATION is {chosen}: install it, or unset the variable for the default" if chosen else ""
        return BROKEN, f"the middleware does not start: {error}", advice
    finally:
        context.try_shutdown()
    reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "")
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    where = {
        "LOCALHOST": "this machine only",
        "": "this machine only (default of mm_ros)",
        "SUBNET": "the local network",
    }
    return OK, f"{name}, domain {domain}, discovery: {where.get(reach, reach)}", ""


def check_messages() -> tuple[str, str, str]:
    advice = "run `make messages` (checkout), `colcon build` (workspace) or `pip install .` (elsewhere)"
    if importlib.util.find_spec("mm_ros.msg") is None:
        return BROKEN, "mm_ros.msg is not built", advice
    missing = []
    for package in ("mm_ros", "tf2_msgs", "geometry_msgs", "sensor_msgs", "nav_msgs", "visualization_msgs"):
        try:
            importlib.import_module(f"{package}.msg")
        except ImportError:
            missing.append(package)
    if missing:
        return BROKEN, f"messages missing: {', '.join(missing)}", advice
    from mm_ros.msg import Tracker

    try:
        Tracker.__class__.__import_type_support__()
    except Exception as error:
        return BROKEN, f"the libraries of mm_ros.msg do not load: {error}", advice
    own = importlib.import_module("tf2_msgs").__path__[0]
    return OK, f"mm_ros.msg is built; TFMessage comes from {own}", ""


def check_rviz() -> tuple[str, str, str]:
    if shutil.which("rviz2"):
        return OK, "rviz2 is installed: ros2 launch mm_ros avatar.launch.py rviz:=true", ""
    return (
        LACKS,
        "rviz2 is not installed",
        "optional: the browser viewer does not need it; to install: sudo apt install ros-jazzy-rviz2",
    )


def check_launch() -> tuple[str, str, str]:
    if shutil.which("ros2") and _has("launch_ros"):
        return OK, "ros2 launch is installed", ""
    return LACKS, "ros2 launch is not installed", "`mm_ros up` starts the same graph without it"


def check_viewer() -> tuple[str, str, str]:
    if _has("viser"):
        return OK, f"viser {importlib.metadata.version('viser')}", ""
    return LACKS, "viser is not installed: no viewer in the browser", setup_command("viewer")


def check_headset() -> tuple[str, str, str]:
    if not _has("websockets"):
        return LACKS, "websockets is not installed: no page for headset browsers", setup_command("webxr")
    from mm_ros.web.headset import certificates

    missing = [name for name in ("adb", "openssl") if shutil.which(name) is None]
    uses = {"adb": "headsets on USB", "openssl": "headsets in the Wi-Fi"}
    here = ", ".join(certificates.addresses()) or "none"
    text = f"page for headset browsers; addresses in local networks: {here}"
    if (certificates.folder() / "leaf.crt").is_file() and "openssl" not in missing:
        text += f"; certificate until {certificates.ends(certificates.folder() / 'leaf.crt')}"
    if not missing:
        return OK, text, ""
    needed = "; ".join(f"{uses[name]}: sudo apt install {name}" for name in missing)
    return LACKS, f"{text}; without {' and '.join(missing)}", needed


def check_openxr() -> tuple[str, str, str]:
    if not _has("xr"):
        return (
            LACKS,
            "pyopenxr is not installed",
            f"only for a headset: {setup_command('openxr')}",
        )
    manifest = active_openxr_runtime()
    if manifest is None:
        return (
            LACKS,
            "no OpenXR runtime is registered",
            "only for a headset: install SteamVR or Monado and make it active, or set XR_RUNTIME_JSON",
        )
    if not manifest.is_file():
        return (
            LACKS,
            f"XR_RUNTIME_JSON names {manifest}, which does not exist",
            "unset XR_RUNTIME_JSON",
        )
    try:
        runtime = json.loads(manifest.read_text())["runtime"]
    except (OSError, ValueError, KeyError) as error:
        return LACKS, f"{manifest} cannot be read: {error}", "reinstall this OpenXR runtime"
    return OK, f"OpenXR runtime: {runtime.get('name') or runtime.get('library_path')} ({manifest})", ""


def active_openxr_runtime() -> Path | None:
    """Return the manifest file of the active OpenXR runtime, as the OpenXR loader would find it."""
    named = os.environ.get("XR_RUNTIME_JSON")
    if named:
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    shared = (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    for folder in [config, *shared, "/usr/local/etc", "/etc"]:
        for name in (f"active_runtime.{platform.machine()}.json", "active_runtime.json"):
            path = Path(folder).expanduser() / "openxr" / "1" / name
            if path.exists():
                return path
    return None


def check_steamvr() -> tuple[str, str, str]:
    if not _has("openvr"):
        return LACKS, "openvr is not installed", f"only for SteamVR trackers: {setup_command('steamvr')}"
    paths = (
        Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "openvr" / "openvrpaths.vrpath"
    )
    if not paths.is_file():
        return (
            LACKS,
            "SteamVR is not installed",
            "only for SteamVR trackers: install SteamVR and start it once",
        )
    return OK, "SteamVR is installed", ""


def check_database() -> tuple[str, str, str]:
    from mm_ros.base.cache import cache_root

    root = cache_root()
    found = sorted((root / "database").glob("*"))
    if found:
        return OK, f"default database: {found[-1]} ({found[-1].stat().st_size / 1e6:.0f} MB)", ""
    return OK, "default database: not built yet", "the first start builds it; `mm_ros warm` builds it now"


def check_cache() -> tuple[str, str, str]:
    from mm_ros.base.cache import cache_root, is_writable

    root = cache_root()
    if not is_writable(root):
        return (
            LACKS,
            f"{root} is not writable: every start compiles the kernels again",
            "set MM_ROS_CACHE to a writable folder",
        )
    kernels = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    warm = kernels.is_dir() and any(kernels.rglob("*.nbi"))
    if warm:
        return OK, f"{root}, kernels compiled", ""
    return OK, f"{root}, kernels not compiled yet", "the first start compiles them; `mm_ros warm` compiles them now"


def check_model() -> tuple[str, str, str]:
    folder = Path(__file__).resolve().parents[1] / "models"
    models = sorted(path.name for path in folder.glob("*.onnx"))
    if models:
        return OK, f"networks: {', '.join(models)}", ""
    return LACKS, f"no network in {folder}", "the headset heading replaces it; to train one: mm_ros train orientation"


def check_training() -> tuple[str, str, str]:
    if _has("torch"):
        return OK, f"torch {importlib.metadata.version('torch')}", ""
    return LACKS, "torch is not installed", f"only for `mm_ros train`: {setup_command('train')}"


CHECKS: dict[str, Callable[[], tuple[str, str, str]]] = {
    "Python": check_python,
    "ROS": check_ros,
    "middleware": check_middleware,
    "messages": check_messages,
    "launch": check_launch,
    "RViz": check_rviz,
    "viewer": check_viewer,
    "headset": check_headset,
    "OpenXR": check_openxr,
    "SteamVR": check_steamvr,
    "database": check_database,
    "model": check_model,
    "training": check_training,
    "cache": check_cache,
}


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _pip() -> str:
    return f"{sys.executable} -m pip"
