"""List known vulnerabilities of installed packages; the advisories are read from a folder, not from the network.

`python tools/audit.py ADVISORIES [--path SITE_PACKAGES]`. ADVISORIES is a folder of YAML or JSON files in OSV's format,
for example a clone of github.com/pypa/advisory-database or an unpacked export of osv.dev. The exit code is 1 if a
package has a known vulnerability. Vulnerabilities that were published after the newest file of the folder cannot be
found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version


def advisories(folder: Path) -> Iterator[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(p for kind in ("yaml", "json") for p in folder.rglob(f"*.{kind}")):
        text = path.read_text("utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.load(text, loader)
        if isinstance(content, dict) and "id" in content and "affected" in content and not content.get("withdrawn"):
            yield content


def is_affected(version: str, affected: dict[str, Any]) -> bool:
    """Return whether an advisory affects a version. By OSV's rule, it does if the version is listed, or is in a range
    that begins at `introduced` and ends before `fixed`.
    """
    if version in affected.get("versions", []):
        return True
    try:
        own = Version(version)
        for given in affected.get("ranges", []):
            if given["type"] == "ECOSYSTEM" and _inside(own, given["events"]):
                return True
    except InvalidVersion:
        return True  # a package version that cannot be compared is reported as vulnerable
    return False


def _inside(own: Version, events: list[dict[str, str]]) -> bool:
    inside = False
    ordered = sorted((Version(str(at)), kind) for event in events for kind, at in event.items() if kind != "limit")
    for at, kind in ordered:
        if kind == "introduced" and own >= at:
            inside = True
        elif (kind == "fixed" and own >= at) or (kind == "last_affected" and own > at):
            inside = False
    return inside


def audit(folder: Path, installed: dict[str, str]) -> tuple[list[str], int, str]:
    """Return a line for each known vulnerability, the number of advisories and the date of the newest one."""
    found: dict[str, list[str]] = defaultdict(list)
    count, newest = 0, ""
    for advisory in advisories(folder):
        count += 1
        newest = max(newest, str(advisory.get("published", ""))[:10])
        for affected in advisory["affected"]:
            package = affected.get("package", {})
            name = canonicalize_name(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in installed and is_affected(installed[name], affected):
                found[f"{name} {installed[name]}"].append(advisory["id"])
    return [f"{name}: {', '.join(sorted(set(ids)))}" for name, ids in sorted(found.items())], count, newest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("advisories", type=Path)
    parser.add_argument("--path", action="append", default=[], help="folder of installed packages (default: own ones)")
    args = parser.parse_args()
    installed = {
        canonicalize_name(d.metadata["Name"]): d.version for d in distributions(path=args.path or sys.path)
    }
    lines, count, newest = audit(args.advisories, installed)
    if not count:
        print(f"{args.advisories} contains no advisories: NOTHING WAS CHECKED", file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    print(f"{len(installed)} packages, {count} advisories, the newest of {newest}: {len(lines)} packages are affected")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
