"""Text that is safe to print on a terminal."""

from __future__ import annotations

import re

# Unsafe characters are control characters except newlines, characters that change the direction of text, and bytes that
# are not UTF-8. In a file name, unsafe characters could make a terminal hide text or run commands.
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Escape those characters of a text that are unsafe to print on a terminal."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xDC80 <= code <= 0xDCFF:  # Python represents bytes that are not UTF-8 by the codes 0xDC80 to 0xDCFF.
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
