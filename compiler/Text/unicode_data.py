#!/usr/bin/env python3
"""Writes UnicodeData.inc: general categories, and the canonical decompositions that NFC needs.

    python3 -m pip install unicodedata2==16.0.0
    unicode_data.py OUTPUT

The versions are those of the reference, the `tokenizers` library: its regular expressions (Oniguruma 6.9.10) know
Unicode 16, its normalizers (the crate unicode-normalization-alignments) Unicode 9. For NFC, code points younger than
Unicode 9 are therefore inert: LATER_MARKS and LATER_COMPOSITES list those that Unicode 16 gives a combining class or a
canonical decomposition (property Age of the Unicode Character Database).
"""
import sys

import unicodedata2 as unicode

LATER_MARKS = """7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1ace 1df6-1dfa a82c 10d24-10d27 10d69-10d6d 10eab-10eac
10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 113ce-113d0 1145e 11839-1183a 1193d-1193e 11943 119e0 11a34 11a47 11a99
11d42 11d44-11d45 11d97 11f41-11f42 1612f 16ff0-16ff1 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef"""
LATER_COMPOSITES = """105c9 105e4 11383 11385 1138e 11391 113c5 113c7 113c8 11938 16121-16128 16d68-16d6a"""
CODE_POINTS = [c for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]


def parse(ranges):
    found = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def runs(values):
    """[(first, last, value)] of a list of (code point, value) in order."""
    out = []
    for c, value in values:
        if out and out[-1][1] == c - 1 and out[-1][2] == value:
            out[-1][1] = c
        else:
            out.append([c, c, value])
    return out


def table(name, fields, rows):
    yield f"static constexpr {fields} {name}[] = {{\n"
    line = ""
    for row in rows:
        item = "{" + ",".join(row) + "},"
        if len(line) + len(item) > 118:
            yield line + "\n"
            line = ""
        line += item
    yield line + "\n};\n\n"


def main():
    if unicode.unidata_version != "16.0.0":
        sys.exit(f"unicodedata2 of Unicode 16.0.0 expected, got {unicode.unidata_version}")
    marks, composites = parse(LATER_MARKS), parse(LATER_COMPOSITES)
    categories = runs([(c, unicode.category(chr(c))) for c in CODE_POINTS if unicode.category(chr(c)) != "Cn"])
    classes = runs([(c, unicode.combining(chr(c))) for c in CODE_POINTS
                    if unicode.combining(chr(c)) and c not in marks])
    decompositions = []
    for c in CODE_POINTS:
        parts = unicode.decomposition(chr(c)).split()
        if not parts or parts[0].startswith("<") or c in composites:
            continue
        first, second = [int(p, 16) for p in parts + ["0"]][:2]
        composes = bool(second) and unicode.normalize("NFC", chr(first) + chr(second)) == chr(c)
        decompositions.append((f"0x{c:x}", f"0x{first:x}", f"0x{second:x}", str(int(composes))))
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Made by unicode_data.py from the Unicode Character Database 16.0.0. Copyright 1991-2024 Unicode, Inc.;\n"
                  "// https://www.unicode.org/license.txt (Unicode License v3). Not edited by hand.\n\n")
        for text in table("categoryRanges", "CategoryRange",
                          ((f"0x{a:x}", f"0x{b:x}", v) for a, b, v in categories)):
            out.write(text)
        for text in table("combiningClasses", "ClassRange", ((f"0x{a:x}", f"0x{b:x}", str(v)) for a, b, v in classes)):
            out.write(text)
        for text in table("decompositions", "Decomposition", decompositions):
            out.write(text)


if __name__ == "__main__":
    main()
