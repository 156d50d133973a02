"""This room makes fonts with the metrics of another family, for a machine that has only one.

A layout asks a font for nothing but the advances of its characters and the height of its lines. Those of
Helvetica and Courier have been public since 1985, and Arial and Liberation, which most machines have, are
drawn to the same ones. Every character is a box.
"""

import struct
from collections.abc import Mapping

_PRINTABLE = "".join(map(chr, range(32, 127)))
_REGULAR = """
    278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556
    278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667
    611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833
    556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584
"""
_BOLD = """
    278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556
    333 333 584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667
    611 722 667 944 667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889
    611 611 611 611 389 556 333 611 556 778 556 556 500 389 280 389 584
"""
_BEYOND = {"\u00a0": 278, "\u202f": 278, "·": 278, "–": 556, "—": 1000, "…": 1000, "−": 584, "≥": 549}
_ASCENT, _DESCENT, _LINE_GAP, _CAPITALS = 905, -212, 33, 716
_NARROW = 0.82


def made_fonts() -> list[tuple[str, str, bytes]]:
    """The kind, the weight and the font of each: sans and narrow in two weights, mono in one."""
    regular, bold = _widths(_REGULAR), _widths(_BOLD)
    return [
        ("sans", "400", _font(regular)),
        ("sans", "700", _font(bold)),
        ("narrow", "400", _font(_narrowed(regular))),
        ("narrow", "700", _font(_narrowed(bold))),
        ("mono", "400", _font(dict.fromkeys(regular, 600))),
    ]


def _widths(listed: str) -> dict[str, int]:
    return dict(zip(_PRINTABLE, map(int, listed.split()), strict=True)) | _BEYOND


def _narrowed(widths: Mapping[str, int]) -> dict[str, int]:
    return {character: round(width * _NARROW) for character, width in widths.items()}


def _font(widths: Mapping[str, int]) -> bytes:
    """A TrueType font with these advances, in thousandths of its size (OpenType 1.9, chapter by table)."""
    characters = sorted(widths)
    advances = [500, *(widths[character] for character in characters)]
    boxes = [_box(advance) for advance in advances]
    places = [sum(map(len, boxes[:number])) for number in range(len(boxes) + 1)]
    number, widest = len(advances), max(advances)
    tables = {
        b"OS/2": struct.pack(
            ">HhHHHhhhhhhhhhhh10sIIII4sHHHhhhHHIIhhHHH",
            *(4, 556, 400, 5, 0, 650, 700, 0, 140, 650, 700, 0, 477, 50, 258, 0),
            *(bytes(10), 1, 0, 0, 0, b"MADE", 0x40, ord(characters[0]), ord(characters[-1])),
            *(_ASCENT, _DESCENT, _LINE_GAP, _ASCENT, -_DESCENT, 1, 0, 519, _CAPITALS, 0, 32, 1),
        ),
        b"cmap": _character_map(characters),
        b"glyf": b"".join(boxes),
        b"head": struct.pack(
            ">IIIIHHQQhhhhHHhhh",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5, 3, 1000, 0, 0, 0, 0, widest, _CAPITALS, 0, 8, 2, 1, 0),
        ),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH",
            *(0x10000, _ASCENT, _DESCENT, _LINE_GAP, widest, 0, 0, widest, 1, 0, 0, 0, 0, 0, 0, 0, number),
        ),
        b"hmtx": b"".join(struct.pack(">Hh", advance, 0) for advance in advances),
        b"loca": struct.pack(f">{len(places)}I", *places),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, number, 4, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0),
        b"name": struct.pack(">HHH", 0, 0, 6),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, -100, 50, 0, 0, 0, 0, 0),
    }
    return _bound(tables)


def _box(advance: int) -> bytes:
    """One glyph: a box with a little air on both sides."""
    left, right, top = advance // 10, advance - advance // 10, 520
    steps = (left, 0, right - left, 0), (0, top, 0, -top)
    return struct.pack(">hhhhhHH4B4h4hxx", 1, left, 0, right, top, 3, 0, *(1, 1, 1, 1), *steps[0], *steps[1])


def _character_map(characters: list[str]) -> bytes:
    """Format 4 with one segment for each character, and the last one that it asks for."""
    codes = [*map(ord, characters), 0xFFFF]
    count = len(codes)
    shifts = [*((place - code) % 65_536 for place, code in enumerate(codes[:-1], start=1)), 1]
    power = 1 << (count.bit_length() - 1)
    search = (2 * count, 2 * power, power.bit_length() - 1, 2 * (count - power))
    body = struct.pack(
        f">4H{count}HH{count}H{count}H{count}H", *search, *codes, 0, *codes, *shifts, *([0] * count)
    )
    return struct.pack(">HHHHIHHH", 0, 1, 3, 1, 12, 4, 6 + len(body), 0) + body


def _bound(tables: Mapping[bytes, bytes]) -> bytes:
    """The tables in one file, each behind its entry of the directory."""
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    directory = struct.pack(
        ">IHHHH", 0x10000, count, 16 * power, power.bit_length() - 1, 16 * (count - power)
    )
    offset, bodies = 12 + 16 * count, b""
    for tag, table in sorted(tables.items()):
        padded = table + bytes(-len(table) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) % 2**32
        directory += struct.pack(">4sIII", tag, checksum, offset + len(bodies), len(table))
        bodies += padded
    return directory + bodies
