#!/usr/bin/env python3
"""Writes unicode_tables.inc: what Python's str methods know about characters, for the interpreter of chat templates.

    unicode_tables.py OUTPUT

The reference renders templates with Python, so that its str is the definition; this was run with Python 3.11 (Unicode 14).
Properties are ranges of code points; mappings of case are runs (first, last, step, difference), and a short table of
characters that become several.
"""
import sys
import unicodedata

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]


def final_sigma(before):
    return (before + "\u03a3").lower().endswith("\u03c2")


# Lower case of a final sigma looks back over what is ignorable to what is cased.
CASED_BASE = {c for c in CHARACTERS if final_sigma(c)}
PROPERTIES = {
    "alphabetic": str.isalpha,
    "decimal": str.isdecimal,
    "digit": str.isdigit,
    "numeric": str.isnumeric,
    "printable": str.isprintable,
    "lowercase": str.islower,
    "uppercase": str.isupper,
    "titlecase": lambda c: unicodedata.category(c) == "Lt",
    "cased": lambda c: (c + "a").title()[-1] == "a",
    "ignorable": lambda c: c not in CASED_BASE and final_sigma("\u0391" + c),
}
MAPPINGS = {"upper": str.upper, "lower": str.lower, "title": str.title}


def ranges(test):
    out = []
    for c in map(ord, filter(test, CHARACTERS)):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def runs(mapping):
    """Runs of equal differences at steps of 1 or 2, and the characters that become several."""
    out, many = [], []
    for c in CHARACTERS:
        to = mapping(c)
        if to == c:
            continue
        if len(to) != 1:
            many.append((ord(c), [ord(x) for x in to]))
            continue
        code, difference = ord(c), ord(to) - ord(c)
        last = out[-1] if out else None
        if last and last[3] == difference and code - last[1] in (1, 2) and last[2] in (0, code - last[1]):
            last[2], last[1] = code - last[1], code
        else:
            out.append([code, code, 0, difference])
    return [(first, end, step or 1, difference) for first, end, step, difference in out], many


def table(out, kind, name, rows):
    out.write(f"static constexpr {kind} {name}[] = {{\n")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(row) + "},"
        if len(line) + len(item) > 118:
            out.write(line + "\n")
            line = "   "
        line += item
    out.write(line + "\n};\n\n")


def main():
    with open(sys.argv[1], "w") as out:
        out.write(f"// Written by unicode_tables.py (Unicode {unicodedata.unidata_version}). Do not edit.\n\n")
        for name, test in PROPERTIES.items():
            table(out, "CodePointRange", name + "Ranges", [(hex(a), hex(b)) for a, b in ranges(test)])
        for name, mapping in MAPPINGS.items():
            single, many = runs(mapping)
            table(out, "CaseRun", name + "Runs", [(hex(a), hex(b), str(s), str(d)) for a, b, s, d in single])
            table(out, "CaseSpecial", name + "Specials",
                  [(hex(c), "{" + ", ".join(hex(x) for x in to + [0] * (3 - len(to))) + "}") for c, to in many])


if __name__ == "__main__":
    main()
