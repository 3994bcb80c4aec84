#!/usr/bin/env python3
"""Makes the seeds of fuzz-tokenizer and fuzz-tokenize: make_tokenizer_corpus.py  (Python's standard library only)

corpus/tokenizer/: a small tokenizer.json for each part that a tokenizer can have, a zero byte, and a text that goes
through it. corpus/tokenize/: a byte that chooses a tokenizer, one that says what is trusted, and a text.
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def added(content, **flags):
    return {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def tokenizer(**parts):
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "\u0120": 3, "ab": 4, "abc": 5, "\u0120a": 6},
             "merges": ["a b", "ab c", ["\u0120", "a"]], **parts.pop("model", {})}
    return {"version": "1.0", "added_tokens": [added("<e>")], "normalizer": None, "pre_tokenizer": BYTE_LEVEL,
            "post_processor": None, "decoder": {"type": "ByteLevel"}, "model": model, **parts}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert},
                                                  {**BYTE_LEVEL, "use_regex": False}]}


SEEDS = {
    "plain": (tokenizer(), "abc ab<e>cab"),
    "long": (tokenizer(), "abc" * 40 + " " * 60),
    "digits": (tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]}),
               "a1b22 a"),
    "prefix": (tokenizer(pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}), "abc<e>ab"),
    "split": (tokenizer(pre_tokenizer=split(r"(?i:'s|ab)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+", "Isolated")), "a'S  b 123 c\n"),
    "lazy": (tokenizer(pre_tokenizer=split(r"(?:a|ab)(?:c|bcd)??|[^\x{61}-\u0063\P{Lu}]*?b(?=c)", "MergedWithNext", True)), "abcabcd ab"),
    "literal": (tokenizer(pre_tokenizer=split("b", "Contiguous", kind="String")), "abbcb"),
    "flags": (tokenizer(added_tokens=[added("<l>", lstrip=True), added("<r>", rstrip=True), added("W", single_word=True, special=False),
                                      added("<n>", normalized=True)]), "a <l> b <r>  W aW <n>"),
    "nfc": (tokenizer(normalizer={"type": "NFC"}, added_tokens=[added("\u00e9", normalized=True)]), "e\u0301a\u1112\u1161\u11abq\u0323\u0307"),
    "template": (tokenizer(post_processor={"type": "TemplateProcessing", "pair": [],
                                           "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                           "special_tokens": {"x": {"id": "x", "ids": [2], "tokens": ["c"]}}}), "ab"),
    "roberta": (tokenizer(post_processor={"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0]}), "ab"),
    "sentencepiece": (tokenizer(model={"vocab": {"<unk>": 0, "<0xE2>": 1, "<0x80>": 2, "\u2581": 3, "a": 4, "b": 5, "\u2581a": 6, "ab": 7},
                                       "merges": ["\u2581 a", "a b"], "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"},
                                pre_tokenizer=None,
                                normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                                decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                                          {"type": "ByteFallback"}, {"type": "Fuse"},
                                                                          {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}), "ab  a<e> \u2000cab"),
    "affixes": (tokenizer(model={"vocab": {"a": 0, "##b": 1, "##b$": 2, "ab$": 3, "a$": 4, "ab": 5}, "merges": [["a", "##b$"], ["a", "##b"]],
                                 "continuing_subword_prefix": "##", "end_of_word_suffix": "$"},
                          pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Removed"}]},
                          decoder={"type": "Sequence", "decoders": [{"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "BPEDecoder", "suffix": "$"}]}),
                "ab abb, a!"),
    "unigram": (tokenizer(model={"type": "Unigram", "unk_id": 0, "byte_fallback": True,
                                 "vocab": [["<unk>", 0], ["\u2581", -1], ["a", -2.5], ["ab", -3], ["\u2581ab", -1e-3], ["<0x63>", -9]]},
                          pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
                          decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}), "abab c<e>a \u00e9"),
    "forms": (tokenizer(normalizer={"type": "Sequence", "normalizers": [
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "NFKC"},
        {"type": "Nmt"}, {"type": "BertNormalizer"}, {"type": "Replace", "pattern": {"Regex": "b+|[c-e]"}, "content": "xy"}]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}, {"type": "ByteLevel"},
                                                             {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "a"}]},
        decoder={"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel"}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}]}),
              " \ufb01\u00c9 ABc\u65e5 <e> \u0130 "),
    "unknown": (tokenizer(model={"unk_token": "c", "fuse_unk": True, "ignore_merges": True}), "a\u65e5\U0001f642b\x01\x02\x03\x04\x05"),
}


TEXTS = ["Hello <s>world</s> don't 123 ", "\u2581a\u2581 <0x0A> \u65e5\u672c\U0001f642 e\u0301\u0323 \ufb01 \u0130 \u1112\u1161\u11ab",
         "<|im_start|>user\n<mask> WORD <sep> the  the\t\u00a0\u3000x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa    "]


def main():
    os.makedirs(f"{HERE}/corpus/tokenize", exist_ok=True)
    for i, text in enumerate(TEXTS):
        with open(f"{HERE}/corpus/tokenize/{i}", "wb") as f:
            f.write(bytes([7 * i, i]) + text.encode() + b"\xff\xe2\x82")
    os.makedirs(f"{HERE}/corpus/tokenizer", exist_ok=True)
    for name, (data, text) in SEEDS.items():
        with open(f"{HERE}/corpus/tokenizer/{name}", "wb") as f:
            f.write(json.dumps(data, separators=(",", ":")).encode() + b"\0" + text.encode())


if __name__ == "__main__":
    main()
