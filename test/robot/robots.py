"""Robot files for tests: the humanoid of this project, and changed copies of its URDF text."""

import re
from pathlib import Path

HUMANOID = Path(__file__).resolve().parents[2] / "config" / "robots" / "mm_humanoid.urdf"
TEXT = HUMANOID.read_text()


def without(text: str, *starts: str) -> str:
    """Delete the joints whose names begin with one of `starts`, and all links below these joints."""
    dead = set()
    joints = re.findall(r'<joint name="([^"]*)".*?<parent link="([^"]*)"/><child link="([^"]*)"/>.*?</joint>', text)
    for name, parent, child in joints:
        if name.startswith(starts) or parent in dead:
            dead.add(child)

    def joint(m: re.Match) -> str:
        return "" if re.search('child link="([^"]*)"', m[0])[1] in dead else m[0]

    text = re.sub(r' *<joint name="[^"]*".*?</joint>\n', joint, text)
    text = re.sub(r' *<link name="([^"]*)">.*?</link>\n', lambda m: "" if m[1] in dead else m[0], text, flags=re.S)
    return re.sub(r' *<link name="([^"]*)"/>\n', lambda m: "" if m[1] in dead else m[0], text)


def nameless(text: str) -> str:
    """Replace all names in a robot file by numbers, so that only the geometry identifies the parts."""
    names = dict.fromkeys(re.findall(r'(?:name|link)="([^"]*)"', text))
    numbers = {name: f"n{i}" for i, name in enumerate(names)}
    return re.sub(r'(name|link)="([^"]*)"', lambda m: f'{m[1]}="{numbers[m[2]]}"', text)


def turned_round(text: str) -> str:
    """Connect the robot to a new base that is rotated by 180° about the vertical."""
    joint = (
        '<link name="new_base"/><joint name="turn" type="fixed"><origin rpy="0 0 3.14159265"/><parent link="new_base"/>'
        '<child link="pelvis"/><axis xyz="0 0 0"/></joint></robot>'
    )
    return text.replace("</robot>", joint)
