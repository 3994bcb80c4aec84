#!/usr/bin/env python3
"""Writes ReferenceSets.inc: sets of code points that the `tokenizers` library takes from crates of several ages.

    python3 -m pip install tokenizers==0.23.3
    reference_sets.py OUTPUT

The library itself is asked about every code point, because its crates follow versions of Unicode between 7 and 17.
"""
import sys

from tokenizers import normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]


def ranges(found):
    out = []
    for c in CODE_POINTS:
        if found(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def main():
    strip_accents, punctuation = normalizers.StripAccents(), pre_tokenizers.Punctuation()
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    unmark = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    nfd, lower = normalizers.NFD(), normalizers.Lowercase()
    sets = {
        "combiningMarks": lambda c: strip_accents.normalize_str(c + "a") != c + "a",
        "punctuationCharacters": lambda c: c != " " and len(punctuation.pre_tokenize_str("a" + c + "a")) == 3,
        "bertControls": lambda c: clean.normalize_str("a" + c + "a") == "aa",
        "bertMarks": lambda c: nfd.normalize_str(c) == c and unmark.normalize_str("a" + c + "a") == "aa",
    }
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Made by reference_sets.py, which asks the `tokenizers` library. Not edited by hand.\n\n")

        def table(kind, name, rows):
            out.write(f"static constexpr {kind} {name}[] = {{\n")
            line = ""
            for row in rows:
                item = "{" + ",".join(f"0x{x:x}" for x in row) + "},"
                if len(line) + len(item) > 118:
                    out.write(line + "\n")
                    line = ""
                line += item
            out.write(line + "\n};\n\n")

        for name, found in sets.items():
            table("CodePointSet::Range", name, ranges(found))
        pairs = []  # U+0130 alone becomes two
        for c in CODE_POINTS:
            lowered = lower.normalize_str(chr(c))
            if len(lowered) == 1 and lowered != chr(c):
                pairs.append((c, ord(lowered)))
        table("LowercasePair", "lowercaseTable", pairs)


if __name__ == "__main__":
    main()
