"""Prepare a release: `python tools/release.py 0.2.0` writes version and changelog, and prints the next commands."""

import datetime
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
VERSIONED = {
    "mm_ros/_version.py": r'(__version__ = ")[^"]+(")',
    "package.xml": r"(<version>)[^<]+(</version>)",
    "CITATION.cff": r"(?m)(^version: ).+($)",
}


def release(version: str, top: Path = TOP, today: str = "") -> str:
    """Return the remaining commands; raise SystemExit with the reason when the release cannot be prepared."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"release: expected a version such as 0.2.0, got '{version}'")
    if subprocess.run(["git", "status", "--porcelain"], cwd=top, capture_output=True, text=True).stdout:
        raise SystemExit("release: the working tree has changes; commit them first")
    changelog = (top / "CHANGELOG.md").read_text()
    heading = f"## [{version}] - {today or datetime.date.today().isoformat()}"
    if "## [Unreleased]\n" not in changelog:
        raise SystemExit("release: CHANGELOG.md has no section '## [Unreleased]'")
    for name, pattern in VERSIONED.items():
        path = top / name
        text, count = re.subn(pattern, rf"\g<1>{version}\g<2>", path.read_text())
        if count != 1:
            raise SystemExit(f"release: {name} has {count} places for a version; expected one")
        path.write_text(text)
    (top / "CHANGELOG.md").write_text(changelog.replace("## [Unreleased]\n", f"## [Unreleased]\n\n{heading}\n", 1))
    return (
        f"bash .ci/run\ngit commit -am 'Release {version}'\ngit tag v{version}\n"
        ".venv/bin/python -m pip wheel --no-deps -w dist .\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/release.py VERSION")
    print(release(sys.argv[1]), end="")
