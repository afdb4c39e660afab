"""Bundle the headset page: npm installs the pinned packages, esbuild writes `mm_ros/web/headset/static/page.js`.

`python tools/headset_page/build.py [--check | --install]`. Equal sources give a bit-identical page.js. `--check`
builds the bundle and compares it with page.js, without writing it. `--install` only installs the packages, among them
IWER, which emulates a headset in tests. `manifest.json` has the SHA-256 of sources and bundle: even without npm, a test
notices if only one of both has changed.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parents[1] / "mm_ros" / "web" / "headset" / "static"
MANIFEST = HERE / "manifest.json"


def sources() -> list[Path]:
    return [*sorted((HERE / "src").glob("*.js")), HERE / "package.json", HERE / "package-lock.json"]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest(bundle: bytes) -> dict[str, dict[str, str]]:
    return {
        "sources": {str(path.relative_to(HERE)): sha256(path.read_bytes()) for path in sources()},
        "bundle": {"page.js": sha256(bundle)},
    }


def install() -> None:
    """Install the pinned npm packages beside the sources, unless they are there, without running their scripts."""
    kept = HERE / "node_modules" / ".package-lock.json"
    lock = HERE / "package-lock.json"
    if not kept.is_file() or kept.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True)


def bundle() -> bytes:
    esbuild = next((HERE / "node_modules" / "@esbuild").glob("*/bin/esbuild"))
    command = [esbuild, "src/main.js", "--bundle", "--minify", "--format=esm", "--target=es2022"]
    command += ["--legal-comments=none"]
    return subprocess.run(command, cwd=HERE, check=True, capture_output=True).stdout


def licenses() -> bytes:
    three = (HERE / "node_modules" / "three" / "LICENSE").read_text()
    version = json.loads((HERE / "package.json").read_text())["dependencies"]["three"]
    return f"page.js contains three.js {version}:\n\n{three}\nThe rest of page.js: mm_ros, Apache-2.0.\n".encode()


def main() -> int:
    install()
    if "--install" in sys.argv:
        return 0
    made = bundle()
    files = {STATIC / "page.js": made, STATIC / "licenses.txt": licenses()}
    files[MANIFEST] = (json.dumps(manifest(made), indent=1) + "\n").encode()
    if "--check" in sys.argv:
        changed = [path.name for path, content in files.items() if not path.is_file() or path.read_bytes() != content]
        print(f"other than in the sources: {', '.join(changed)}" if changed else "the page is that of its sources")
        return bool(changed)
    for path, content in files.items():
        path.write_bytes(content)
        print(f"{path.relative_to(HERE.parents[1])}: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
