#!/usr/bin/env python3
"""Makes the goldens of test/Unit/Text/synthetic: tokenizers with random parts and what the `tokenizers` library does with
generated strings. Needs

    python3 -m pip install tokenizers==0.23.3

    make_tokenizer_golden.py [OUTPUT]

Of the tokenizers that synthetic_tokenizer.py makes those are kept that have parts, or settings of parts, which none before
them has.
"""
import json
import os
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import fuzz_tokenizer
import synthetic_tokenizer
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


def features(part, name, found):
    """All types, and all settings that are words or flags."""
    if isinstance(part, dict):
        kind = part.get("type", "")
        found.add((name, kind))
        for key, value in part.items():
            if isinstance(value, (bool, str)) and key not in ("content", "type", "trim_offsets", "Regex", "String", "prepend", "delimiter"):
                found.add((name, kind, key, value))
            elif key not in ("vocab", "merges", "special_tokens", "pair"):
                features(value, name if key in ("pattern", "pretokenizers", "normalizers", "decoders", "processors") else key, found)
    elif isinstance(part, list):
        for value in part:
            features(value, name, found)
    return found


def golden(data, seed):
    t, r = Tokenizer.from_str(json.dumps(data)), random.Random(seed)
    added = [a["content"] for a in data["added_tokens"]]
    words = fuzz_tokenizer.WORDS + added * 3 + [" " + a for a in added] + [a + " " for a in added]
    size = t.get_vocab_size()
    pieces = [fuzz_tokenizer.panics(t.decode, [i], skip_special_tokens=False) or "" for i in range(size)]
    items, lists = [], []
    for i in range(24):
        text = fuzz_tokenizer.text(r, words, pieces, i)[:120]
        encoding, plain = (fuzz_tokenizer.panics(t.encode, text, add_special_tokens=s) for s in (True, False))
        if encoding is not None and plain is not None:
            items.append({"text": text, "ids": encoding.ids, "ids_plain": plain.ids})
            lists.append(encoding.ids)
    lists += [[r.randrange(size + 2) for _ in range(r.randint(1, 9))] for _ in range(12)]
    decoded = []
    for ids in lists:
        texts = [fuzz_tokenizer.panics(t.decode, ids, skip_special_tokens=skip) for skip in (False, True)]
        if None not in texts:
            decoded.append({"ids": ids, "decoded": texts[0], "decoded_skip": texts[1]})
    return {"tokenizer": data, "items": items, "decode": decoded}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "Unit", "Text", "synthetic")
    os.makedirs(out, exist_ok=True)
    seen, kept = set(), 0
    for seed in range(1, 400):
        data = synthetic_tokenizer.make(seed, size=110)
        if data is None:
            continue
        new = features(data, "", set()) - seen
        if len(new) < (4 if kept < 12 else 1) or kept >= 36:
            continue
        made = golden(data, seed)
        if len(made["items"]) < 16 or len(made["decode"]) < 24:
            continue
        seen |= new
        kept += 1
        with open(os.path.join(out, f"{seed:03d}.json"), "w", encoding="utf-8") as f:
            json.dump(made, f, separators=(",", ":"))
    print(f"{kept} tokenizers with {len(seen)} different parts and settings")


if __name__ == "__main__":
    main()
