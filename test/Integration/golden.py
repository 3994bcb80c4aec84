#!/usr/bin/env python3
"""Compiles the model of one golden case and compares it with what the reference implementation computed from it.

    golden.py [--ingotc-arg=ARG]... CASE...   directories of cases/ (README.md tells the format)
    golden.py --self-test                     the comparisons find planted faults and pass what is right

The tolerance is the golden's, as it stands: max(1e-5 * max(1, largest |logit|), 4 * the reference's own distance from
float64). Greedy tokens must be the reference's, up to a step at which its best two logits are closer than
max(1e-4, 2 tolerances).
"""
import array
import json
import math
import os
import sys

from support import INGOTC, Failure, compiled, folder, ids, logits, logits_file, ok, run, scratch

NEAR_TIE = 1e-4
EXTRA = []  # what --ingotc-arg adds
INTERNAL = ("Sanitizer", "Assertion", "terminate called", "Stack dump", "PLEASE submit", "std::")


def check_rows(rows, count, vocab):
    """Every row is there, has the vocabulary's width and is finite."""
    if len(rows) != count or any(len(r) != vocab for r in rows):
        raise Failure(f"expected logits of shape {count} x {vocab}, got {len(rows)} x {sorted({len(r) for r in rows})}")
    for i, row in enumerate(rows):
        for j, x in enumerate(row):
            if not isinstance(x, (int, float)) or not math.isfinite(x):
                raise Failure(f"logit [{i}][{j}] is {x!r}, expected a finite number")
    return rows


def stored_logits(golden, home, prompt):
    """Yields (row, ids, values) of what the golden stores: whole rows of a binary file, or chosen ids of some rows."""
    if "sparse" in prompt:
        for entry in prompt["sparse"]:
            yield entry["row"], entry["ids"], entry["values"]
        return
    vocab, data = golden["vocab_size"], array.array("f")
    with open(os.path.join(home, golden["logits_file"]), "rb") as f:
        f.seek(4 * prompt["offset"])
        data.frombytes(f.read(4 * vocab * len(prompt["rows"])))
    if sys.byteorder == "big":
        data.byteswap()
    for i, row in enumerate(prompt["rows"]):
        yield row, range(vocab), data[i * vocab:(i + 1) * vocab]


def compare_logits(stored, rows, tolerance):
    """The largest difference from the golden, which must be within the tolerance."""
    worst = (-1.0,)
    for row, columns, values in stored:
        for column, value in zip(columns, values):
            worst = max(worst, (abs(rows[row][column] - value), row, column, rows[row][column], value))
    if worst[0] < 0:
        raise Failure("the golden stores no logit of this prompt")
    if worst[0] > tolerance:
        difference, row, column, got, want = worst
        raise Failure(f"logit [{row}][{column}]: expected {want:.7g} within {tolerance:.2e}, got {got:.7g} ({difference:.2e} off)")
    return worst[0]


def compare_greedy(prompt, got, limit, alternative=None):
    """How many greedy tokens agree; fewer than all only where the reference itself is at a near tie."""
    want = prompt["greedy"]
    if got in (want, alternative):
        return len(want)
    for i, (mine, theirs) in enumerate(zip(got, want)):
        if mine != theirs:
            if prompt["margins"][i] < limit:
                return i
            raise Failure(f"greedy token {i}: expected {theirs}, got {mine} (the reference's best two logits are "
                          f"{prompt['margins'][i]:.2e} apart)")
    raise Failure(f"expected {len(want)} greedy tokens, got {len(got)}")


def check_stepwise(rows, start, generated, limit):
    """Each generated token is the largest logit of the whole text computed in one go."""
    for i, token in enumerate(generated):
        row = rows[start + i]
        if row[token] < max(row) - limit:
            raise Failure(f"generate chose {token} at step {i}, but in one go {row.index(max(row))} is {max(row) - row[token]:.2e} above it")


def rows_of(exe, tokens, vocab):
    """All logits of a text, checked to be whole."""
    return check_rows((logits if vocab < 10000 else logits_file)(exe, tokens), len(tokens), vocab)


def run_logits(home, golden):
    model, vocab = os.path.join(home, golden["model"]), golden["vocab_size"]
    if "may_refuse" in golden and run(INGOTC, model, "-o", scratch("maybe"), *golden["ingotc_args"]).code != 0:
        return run_refusal(home, dict(golden, words=[golden["may_refuse"]]))
    exe = compiled(model, *golden["ingotc_args"], *EXTRA)
    worst = same = total = 0
    for prompt in golden["prompts"]:
        tokens, tolerance = prompt["tokens"], prompt["tolerance"]
        limit = max(NEAR_TIE, 2 * tolerance)
        try:
            rows = rows_of(exe, tokens, vocab)
            worst = max(worst, compare_logits(stored_logits(golden, home, prompt), rows, tolerance))
            if prompt["greedy"]:
                got = ok(exe, "generate", "--tokens", ids(tokens), "--greedy", "-n", golden["new_tokens"], "--json").json["tokens"]
                alternative = prompt.get("greedy_without_cache") if golden.get("without_cache_passes") else None
                same, total = same + compare_greedy(prompt, got, limit, alternative), total + len(prompt["greedy"])
                if golden["cache_consistent"] and got:
                    check_stepwise(rows_of(exe, tokens + got[:-1], vocab), len(tokens) - 1, got, limit)
        except Failure as e:
            raise Failure(f"prompt of {len(tokens)} tokens: {e}") from e
    text = f"largest difference {worst:.1e}, {same} of {total} greedy tokens"
    if golden.get("stored_dtype_distance"):  # with no --dtype: as near as the reference is in the stored type
        exe, allowed = compiled(model, *EXTRA), 2 * golden["stored_dtype_distance"]
        worst = max(compare_logits(stored_logits(golden, home, p), rows_of(exe, p["tokens"], vocab), allowed)
                    for p in golden["prompts"])
        text += f", as stored {worst:.1e}"
    return text


def check_refusal(result, words, left):
    """An exit code, not a signal; a diagnosis with the words; no file left behind."""
    if result.code <= 0 or result.code >= 128:
        raise Failure(f"expected an error, got {result}")
    lines = [l for l in result.err.splitlines() if "error:" in l]
    if not lines:
        raise Failure(f"no line with 'error:' from {result}")
    internal = [w for w in INTERNAL if w in result.err]
    if internal:
        raise Failure(f"expected a diagnosis, got an internal failure ({internal[0]}): {result}")
    for group in words:  # one of each group must be said
        if not any(w.lower() in l.lower() for w in group for l in lines):
            raise Failure(f"expected an error naming one of {group}, got {lines[0][:300]}")
    if left:
        raise Failure(f"left behind: {left}")
    return lines[0].strip()[:160]


def run_refusal(home, golden):
    before = set(os.listdir(folder()))
    result = run(INGOTC, os.path.join(home, golden["model"]), "-o", scratch("refused"), *golden["ingotc_args"])
    return check_refusal(result, golden["words"], sorted(set(os.listdir(folder())) - before))


def self_test():
    """Every comparison, once with what is right and once with a fault just beyond what is allowed."""
    class Ran:
        def __init__(self, code, err):
            self.code, self.err = code, err

    rows = [[0.0, 1.0, 2.0], [3.0, 1.0, 0.5]]
    stored = [(1, [0, 2], [3.0, 0.5])]
    prompt = {"greedy": [2, 0], "margins": [1.0, 0.5]}
    right = [
        lambda: check_rows(rows, 2, 3),
        lambda: compare_logits(stored, rows, 1e-5),
        lambda: compare_logits([(1, [0], [3.00001])], rows, 1.1e-5),
        lambda: compare_greedy(prompt, [2, 0], 1e-4),
        lambda: compare_greedy(prompt, [2, 1], 0.6),
        lambda: check_stepwise(rows, 0, [2, 0], 1e-4),
        lambda: check_refusal(Ran(1, "error: m: no tensor 'x'\n"), [["x", "y"]], []),
    ]
    wrong = [
        lambda: check_rows(rows, 3, 3), lambda: check_rows(rows, 2, 4), lambda: check_rows([[0.0, float("nan")]], 1, 2),
        lambda: compare_logits(stored, [rows[0], [3.0, 1.0, 0.50002]], 1e-5), lambda: compare_logits([], rows, 1.0),
        lambda: compare_greedy(prompt, [2, 1], 1e-4), lambda: compare_greedy(prompt, [2], 1e-4), lambda: compare_greedy(prompt, [2, 0, 1], 1e-4),
        lambda: check_stepwise(rows, 0, [2, 1], 1e-4),
        lambda: check_refusal(Ran(0, ""), [], []), lambda: check_refusal(Ran(-11, "error: x"), [["x"]], []),
        lambda: check_refusal(Ran(1, "no"), [], []), lambda: check_refusal(Ran(1, "error: y"), [["x"]], []),
        lambda: check_refusal(Ran(1, "error: x"), [["x"]], ["file"]), lambda: check_refusal(Ran(1, "error: x\nAssertion failed"), [["x"]], []),
    ]
    trouble = 0
    for i, test in enumerate(right + wrong):
        try:
            test()
            failed = False
        except Failure:
            failed = True
        if failed != (i >= len(right)):
            trouble += 1
            print(f"self-test {i}: {'failed' if failed else 'passed'}")
    print(f"{len(right) + len(wrong) - trouble} passed, {trouble} failed")
    return trouble


def main():
    if "--self-test" in sys.argv[1:]:
        return 1 if self_test() else 0
    EXTRA.extend(a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--ingotc-arg="))
    homes = [a for a in sys.argv[1:] if not a.startswith("--ingotc-arg=")]
    if not homes:
        sys.exit(__doc__)
    failures = 0
    for home in homes:
        with open(os.path.join(home, "golden.json"), encoding="utf-8") as f:
            golden = json.load(f)
        runner = {"logits": run_logits, "compile_error": run_refusal}.get(golden["kind"])
        try:
            if runner is None:
                raise Failure(f"a case of kind {golden['kind']!r}; expected logits or compile_error")
            print(f"passed {golden['name']}: {runner(home, golden)}")
        except Failure as e:
            failures += 1
            print(f"failed {golden['name']} ({golden['about']}): {e}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
