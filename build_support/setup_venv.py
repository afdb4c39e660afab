"""Make or complete the checkout's .venv: `python3 build_support/setup_venv.py --extras test,viewer`.

The Makefile runs it with the system's Python; it needs only the standard library. An error is one sentence.
Each step stores a hash of its inputs, so that a second run skips it.
"""

import sys

if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        "mm_ros needs Python 3.10 to 3.13, and %s is %d.%d. Name another one: make PYTHON=python3.12 ..."  # noqa: UP031
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE))

from build_support.messages import BuildError, check_tools  # noqa: E402
from mm_ros.base.errors import MmRosError  # noqa: E402
from mm_ros.base.extras import resolved  # noqa: E402


def read_pyproject(python: Path) -> dict:
    """Content of pyproject.toml. Python 3.10 has no tomllib; the venv's pip contains tomli."""
    try:
        import tomllib
    except ImportError:
        packages = next((python.parent.parent / "lib").glob("python3.*/site-packages"))
        sys.path.append(str(packages))
        from pip._vendor import tomli as tomllib
    with (SOURCE / "pyproject.toml").open("rb") as handle:
        return tomllib.load(handle)


def requirements(pyproject: dict, extras: list[str]) -> list[str]:
    """Requirements to build and run mm_ros, and of the extras, with `mm_ros[a,b]` resolved."""
    project = pyproject["project"]
    try:
        optional = resolved(project["optional-dependencies"], extras)
    except MmRosError as error:
        raise BuildError(error) from None
    return [*pyproject["build-system"]["requires"], *project["dependencies"], *optional]


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def message_digest(python: Path) -> str:
    files = [SOURCE / "CMakeLists.txt", SOURCE / "package.xml", SOURCE / "mm_ros" / "base" / "own_python.py"]
    files += sorted((SOURCE / "msg").glob("*.msg"))
    files += sorted(p for p in (SOURCE / "build_support").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return digest(SOURCE, python, *(p.read_bytes() for p in files))


class Stamps:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str, value: str) -> bool:
        path = self.folder / name
        return path.is_file() and path.read_text() == value

    def set(self, name: str, value: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(value)


def make_venv(venv: Path) -> Path:
    python = venv / "bin" / "python"
    if python.exists():
        return python
    try:
        import ensurepip  # noqa: F401
        import venv as _  # noqa: F401
    except ImportError:
        raise BuildError(
            f"Python's venv is missing. On Debian and Ubuntu: sudo apt install python3.{sys.version_info[1]}-venv"
        ) from None
    say(f"making {venv} with Python {sys.version.split()[0]}")
    try:
        code, output = run([sys.executable, "-m", "venv", str(venv)])
    except KeyboardInterrupt:
        shutil.rmtree(venv, ignore_errors=True)  # the next run would take an incomplete venv as complete
        raise
    if code:
        shutil.rmtree(venv, ignore_errors=True)
        raise BuildError(f"making {venv} failed:\n{output}")
    return python


def run(command: list[str], **more: object) -> tuple[int, str]:
    """Run a command; returns exit code and output. Ctrl-C kills its whole process group without output."""
    # Blocks Ctrl-C until `process` is assigned.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **more
    )
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        output, _ = process.communicate()
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()  # waits until all processes of the group have closed the pipe
        raise
    return process.returncode, output


def pip_install(python: Path, lines: list[str]) -> None:
    # --no-compile: Python compiles modules at import, and compiling all takes longer than downloading.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    code, output = run([*pip, *lines], env={**os.environ, "PYTHONNOUSERSITE": "1"})
    if code:
        raise BuildError(f"pip could not install the requirements of mm_ros (is there a network?):\n{output[-4000:]}")


def say(text: str) -> None:
    print(f"-- {text}", flush=True)


def complete(venv: Path, extras: list[str], optional: list[str]) -> None:
    check_tools()
    python = make_venv(venv)
    stamps = Stamps(venv / ".stamps")
    pyproject = read_pyproject(python)
    start = time.monotonic()

    lines = requirements(pyproject, extras)
    name = f"requirements={'+'.join(sorted(extras))}"
    if not stamps.has(name, digest(*lines)):
        say(f"installing {len(lines)} requirements and their dependencies ({', '.join(extras) or 'no extras'})")
        pip_install(python, lines)
        stamps.set(name, digest(*lines))

    for line in resolved(pyproject["project"]["optional-dependencies"], optional):
        if not stamps.has(f"optional-{digest(line)}", line):
            try:
                pip_install(python, [line])
            except BuildError:
                say(f"{line} cannot be installed here; continuing without it")
            stamps.set(f"optional-{digest(line)}", line)

    messages = message_digest(python)
    if not stamps.has("messages", messages):
        say("building the messages")
        code, output = run([str(python), "-m", "build_support.messages"], cwd=SOURCE)
        if code:
            raise BuildError(f"the messages could not be built:\n{output}")
        stamps.set("messages", messages)
    if time.monotonic() - start > 2.0:
        say(f"{venv} is ready after {time.monotonic() - start:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=SOURCE / ".venv")
    parser.add_argument("--extras", default="", help="comma-separated extras of pyproject.toml")
    parser.add_argument("--optional", default="", help="extras of which each line may fail")
    args = parser.parse_args()
    # A second simultaneous `make` waits, then skips all steps. Locking a folder leaves no lock file.
    try:
        lock = os.open(SOURCE / "build_support", os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete(
            args.venv.absolute(),
            *([e for e in text.split(",") if e] for text in (args.extras, args.optional)),
        )
    except BuildError as error:
        print(f"\nmm_ros: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nmm_ros: stopped by Ctrl-C; the next call goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
