"""Damage files at random; the same random seed gives the same damaged file."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib

NUMBERS = (
    b"0", b"-1", b"1e308", b"-1e308", b"1e-320", b"nan", b"inf", b"99999999999999999999", b"2147483648", b"4294967295",
    b"0x10", b"1e999", b"-0", b"1_000", b"3.", b".5", "٣".encode(),
)  # fmt: skip
WORDS = (
    b"", b" ", b"\n", b"\x00", b"\xff\xfe", b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"[]", b"{}", b"''",
    b"&a [*a]", b"!!python/object:os.system x", b"../../x", b"\x1b[31m", "\u202e".encode(), b"<", b"</robot>", b"- ",
    b"? ", b"&a", b"*a", b"!!binary aGk=", b"2020-01-01", b"<<: *a", b"CHANNELS 0", b"OFFSET 0 0 0", b"JOINT x\n{\n",
    b"End Site\n{\n}\n", b"%YAML 9\n", b"\xed\xa0\x80",
)  # fmt: skip
INTEGERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
DEEP = 3000


def damaged(seeds: tuple[bytes, ...], text: bool, rng: random.Random) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        ways = _TEXT if text and rng.random() < 0.7 else _BYTES
        rng.choice(ways)(data, rng, seeds)
    if data[:8] == b"MMROSDB\0" and rng.random() < 0.8:
        data = _database(data, rng)
    return bytes(data)


def _at(data: bytearray, rng: random.Random) -> int:
    """Return a random byte index, often near the start or the end of the file, where headers and indexes are."""
    n = max(len(data), 1)
    where = rng.random()
    if where < 0.3:
        return rng.randrange(min(n, 256))
    if where < 0.5:
        return n - 1 - rng.randrange(min(n, 256))
    return rng.randrange(n)


def _flip(data: bytearray, rng: random.Random, _: object) -> None:
    if data:
        data[_at(data, rng)] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, rng: random.Random, _: object) -> None:
    if data:
        data[_at(data, rng)] = rng.randrange(256)


def _integer(data: bytearray, rng: random.Random, _: object) -> None:
    form = rng.choice(("<H", "<I", "<Q", ">H", ">I"))
    at, size = _at(data, rng), struct.calcsize(form)
    data[at : at + size] = struct.pack(form, rng.choice(INTEGERS) & (1 << 8 * size) - 1)


def _cut(data: bytearray, rng: random.Random, _: object) -> None:
    del data[_at(data, rng) :]


def _hole(data: bytearray, rng: random.Random, _: object) -> None:
    at = _at(data, rng)
    del data[at : at + rng.choice((1, 2, 4, 16, 200))]


def _again(data: bytearray, rng: random.Random, _: object) -> None:
    at = _at(data, rng)
    part = data[at : at + rng.choice((1, 4, 32, 500))]
    data[at:at] = part * rng.choice((1, 2, 50))


def _insert(data: bytearray, rng: random.Random, _: object) -> None:
    at = _at(data, rng)
    data[at:at] = rng.randbytes(rng.choice((1, 4, 64)))


def _zeros(data: bytearray, rng: random.Random, _: object) -> None:
    at, n = _at(data, rng), rng.choice((1, 8, 64, 512))
    data[at : at + n] = bytes(len(data[at : at + n]))


def _other(data: bytearray, rng: random.Random, seeds: tuple[bytes, ...]) -> None:
    """Replace the end of the file by the end of a valid file."""
    other = rng.choice(seeds)
    data[_at(data, rng) :] = other[rng.randrange(len(other)) :]


def _number(data: bytearray, rng: random.Random, _: object) -> None:
    _replace(data, rng, rb"-?\d+(?:\.\d*)?(?:e-?\d+)?", rng.choice(NUMBERS))


def _word(data: bytearray, rng: random.Random, _: object) -> None:
    _replace(data, rng, rb"[\w.-]+", rng.choice(WORDS + NUMBERS))


def _replace(data: bytearray, rng: random.Random, pattern: bytes, by: bytes) -> None:
    found = list(re.finditer(pattern, bytes(data)))
    if found:
        one = rng.choice(found[:60] if rng.random() < 0.6 else found)
        data[one.start() : one.end()] = by


def _lines(data: bytearray, rng: random.Random, _: object) -> None:
    lines = bytes(data).split(b"\n")
    at = rng.randrange(min(len(lines), 400))
    what = rng.randrange(4)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, rng.choice(lines))
    elif what == 2:
        lines.insert(at, rng.choice(WORDS))
    else:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    data[:] = b"\n".join(lines)


def _deep(data: bytearray, rng: random.Random, _: object) -> None:
    pairs = ((b"[", b"]"), (b"{a: ", b"}"), (b"JOINT x\n{\n", b"}\n"), (b"<a>", b"</a>"), (b"- ", b""))
    opens, closes = rng.choice(pairs)
    at = _at(data, rng)
    data[at:at] = opens * DEEP + closes * rng.choice((0, DEEP))


def _bomb(data: bytearray, rng: random.Random, _: object) -> None:
    """Insert some hundred bytes of nested YAML aliases, which a reader would expand to a billion elements."""
    rows = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 10)]
    name = rng.choice((b"features", b"up", b"files", b"version", b"tags", b"hips", b"rosbag2_bagfile_information"))
    data[:] = b"\n".join([*rows, name + b": *a9"]) + (b"\n" + bytes(data) if rng.random() < 0.5 else b"")


_BYTES = (_flip, _flip, _byte, _integer, _integer, _cut, _hole, _again, _insert, _zeros, _other)
_TEXT = (_number, _number, _number, _word, _word, _word, _lines, _lines, _deep, _bomb, _byte, _cut)


def _database(data: bytearray, rng: random.Random) -> bytearray:
    """Damage the JSON header of a database file, but keep its checksum correct."""
    start = 24
    length = int.from_bytes(data[16:24], "little")
    try:
        header = json.loads(data[start : start + length])
        spots: list[tuple[object, object]] = []
        _spots(header, spots)
        for _ in range(rng.choice((1, 1, 2))):
            holder, key = rng.choice(spots)
            value = rng.choice((None, -1, 0, 1, 2**31, 2**63, 1e308, "", "x", [], {}, [1], {"a": 1}, True, "<f8", "|O"))
            if rng.random() < 0.2:
                del holder[key]  # type: ignore[attr-defined]
            else:
                holder[key] = value  # type: ignore[index]
        text = json.dumps(header).encode()
        text += b" " * max(length - len(text), 0)
    except (ValueError, LookupError, TypeError):
        text = bytes(data[start : start + min(length, len(data))])
    return bytearray(data[:12]) + struct.pack("<IQ", zlib.crc32(text), len(text)) + text + data[start + length :]


def _spots(value: object, out: list[tuple[object, object]]) -> None:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        out.append((value, key))
        _spots(inner, out)
