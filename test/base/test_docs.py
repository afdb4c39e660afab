"""Links in README, docs and benchmarks lead somewhere, and their commands exist."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from mm_ros.cli import main as cli
from mm_ros.ros import launching
from mm_ros.ros.rviz import MARKERS

TOP = Path(__file__).resolve().parents[2]
PAGES = [TOP / "README.md", *(p for folder in ("docs", "benchmarks") for p in sorted((TOP / folder).glob("*.md")))]
ELLIPSIS = {"…", "..."}


def inside_fences(text: str) -> list[str]:
    lines = [line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) for line in _joined(block)]
    return [line.split(" #")[0].strip().removeprefix("$ ") for line in lines]


def _joined(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def inline(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def commands(program: str) -> list[tuple[str, str]]:
    """Page and command line of each command that begins with this program."""
    found = []
    for page in PAGES:
        text = page.read_text()
        indented = [line.split(" #")[0].strip() for line in _joined(text) if line.startswith("    ")]
        for line in (*inside_fences(text), *inline(text), *indented):
            found += [(page.name, part.strip()) for part in line.split(" && ") if part.strip().startswith(program)]
    return sorted(set(found))


def headings(page: Path) -> set[str]:
    """GitHub's anchors of the headings."""
    text = page.read_text()
    titles, named = re.findall(r"^#+ +(.*)$", text, re.M), re.findall(r'<a id="([^"]+)"', text)
    return set(named) | {re.sub(r"[^\w\- ]", "", t.strip().lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target} is not there"
        if anchor:
            assert anchor in headings(file), f"{page.name}: {target}: no such heading. Headings: {headings(file)}"


def test_there_are_commands_to_check():
    assert len(commands("mm_ros ")) > 40


@pytest.mark.parametrize(("page", "line"), commands("mm_ros "), ids=lambda v: str(v)[:60])
def test_each_command_shown_is_one_that_exists(page, line, monkeypatch):
    words = shlex.split(re.sub(r"\[(--?[^\]]*)\]", r"\1", line))[1:]
    if not re.fullmatch(r"[a-z]+", words[0]):
        pytest.skip("no command: mm_ros is the subject of a sentence")
    assert words[0] in cli.available(), f"{page}: {line}"
    subs = cli.available()[words[0]]
    if len(words) == 1:
        return  # a mention of the verb, not a call
    if subs:
        assert words[1] in subs, f"{page}: {line}"
    verb, rest = (words[:2], words[2:]) if subs else (words[:1], words[1:])
    if rest and rest != ["--help"] and not ELLIPSIS & set(rest[:1]):
        parser, _ = cli.verb_parser(*verb)
        monkeypatch.setattr(parser, "error", lambda why: pytest.fail(f"{page}: {line}: {why}"))
        parser.parse_args(rest)


@pytest.mark.parametrize(("page", "line"), commands("ros2 launch mm_ros "), ids=lambda v: str(v)[:60])
def test_each_launch_shown_has_the_arguments_that_it_is_given(page, line):
    words = line.split()[3:]
    file = TOP / "launch" / words[0]
    assert file.is_file(), f"{page}: {line}"
    known = {a.name for a in launching.ARGUMENTS} | set(re.findall(r'"(\w+)"', file.read_text()))
    for word in words[1:]:
        name, is_argument, _ = word.partition(":=")
        assert not is_argument or name in known, f"{page}: {line}: {name}"


@pytest.mark.parametrize(("page", "line"), commands("make "), ids=lambda v: str(v)[:60])
def test_each_make_target_shown_exists(page, line):
    targets = re.findall(r"^([\w-]+(?: [\w-]+)*):", (TOP / "Makefile").read_text(), re.M)
    known = {name for names in targets for name in names.split()}
    asked = [w for w in line.split()[1:] if "=" not in w and re.fullmatch(r"[\w-]+", w)]
    assert set(asked[:1]) <= known, f"{page}: {line}"


ABSENT = {
    r"\bDESIGN\b|\bEDGES\.md\b": "a text that is not in the repository",
    r"\bissue \d|(?<![\w/&;\"'{])#\d+\b(?!\w)": "a number of an issue",
    r"\.\./shared": "a folder beside the repository",
    r"git clone [<…]": "an address that is none",
}


@pytest.mark.parametrize(("pattern", "what"), ABSENT.items(), ids=list(ABSENT.values()))
def test_nothing_is_cited_that_is_not_in_the_repository(pattern, what):
    code = [p for p in sorted((TOP / "mm_ros").rglob("*.py")) if p.name != "shared_data.py"]
    sources = [TOP / "CONTRIBUTING.md", *PAGES, *code]
    found = [
        f"{path.name}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(pattern, re.sub(r"\]\([^)]*\)|font:[^;]*|(?:background|color|solid|border)[: ]*#\w+", "", line))
    ]
    assert not found, what


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_the_line_that_puts_the_checkout_into_a_workspace_works_as_it_is_printed(page, tmp_path):
    line = next(line for line in inside_fences((TOP / page).read_text()) if "ws/src" in line)
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = ["sh", "-c", f"{line} && pwd"]
    done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{tmp_path}/ws\n", done.stderr
    assert (tmp_path / "ws/src/mm_ros/package.xml").samefile(TOP / "package.xml")


def test_the_table_of_rvizs_displays_has_every_display_and_namespace():
    row = r"^\| ([\w ]+) \| (on|off) \| `(markers[^`]*)` \| (.*) \|$"
    rows = re.findall(row, (TOP / "docs/graph.md").read_text(), re.M)
    assert [(title, topic, shown == "on") for title, shown, topic, _ in rows] == [
        (m.title, m.topic, m.shown) for m in MARKERS
    ]
    for (_, _, _, text), display in zip(rows, MARKERS, strict=True):
        assert {f"`{name}`" for name in display.namespaces} <= set(re.findall(r"`[^`]+`", text)), display.title


def test_readme_sends_users_of_a_gamepad_or_a_path_to_a_page_about_them():
    readme = (TOP / "README.md").read_text()
    page = re.search(r"gamepad or a path[^.]*?\]\((docs/[\w-]+\.md)\)", readme, re.S)
    assert page
    text = (TOP / page.group(1)).read_text()
    for word in ("joystick_control", "path_control", "/avatar/joy", "/avatar/cmd_vel", "/avatar/path"):
        assert word in text


def test_the_guide_plays_a_bag_to_a_graph_without_trackers_of_its_own():
    """Two sources of trackers would publish on one topic."""
    blocks = re.findall(r"```[a-z]*\n(.*?)```", (TOP / "docs" / "getting-started.md").read_text(), re.DOTALL)
    played = [block for block in blocks if re.search(r"ros2 bag play|mm_ros replay", block)]
    assert played
    for block in played:
        assert re.search(r"--trackers none|trackers:=none", block), block


def test_no_page_offers_a_speed_in_a_path_or_a_floor_to_a_node():
    for page in PAGES:
        text = page.read_text()
        assert "key point names none" not in text and "as `floor(x, y)`" not in text, page.name
    from nav_msgs.msg import Path as PathMessage

    assert set(PathMessage.get_fields_and_field_types()) == {"header", "poses"}
