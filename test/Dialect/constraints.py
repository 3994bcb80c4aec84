#!/usr/bin/env python3
"""Every labelled constraint in the ODS of the ingot dialect has a test named @<op>_<label>_<what is wrong>, and no test
names a label that the ODS does not have."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from project import ROOT  # noqa: E402


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def main():
    labels = set()
    for m in re.finditer(r'^def Ingot_\w+Op : Ingot_\w*Op<"(\w+)"(.*?)^}', read("dialects/ingot/IngotOps.td"), re.S | re.M):
        labels |= {(m.group(1), label.lower()) for label in re.findall(r"^\s*- (C\d+):", m.group(2), re.M)}
    ops = {op for op, _ in labels}
    tested = set()
    for name in re.findall(r'(?:@|sym_name = ")(\w+)', read("test/Dialect/ops-errors.mlir")):
        m = re.match(r"(\w+?)_(c\d+)_\w+$", name)
        if m:
            tested.add((m.group(1), m.group(2)))
    failures = [f"{op} {label.upper()}: no test @{op}_{label}_... in ops-errors.mlir" for op, label in sorted(labels - tested)]
    failures += [f"@{op}_{label}_...: the ODS has no such constraint" for op, label in sorted(tested - labels)]
    if len(labels) < 30 or len(ops) < 15:
        failures.append(f"found only {len(labels)} constraints of {len(ops)} ops: the patterns are out of date")
    print("\n".join(failures) if failures else f"{len(labels)} constraints of {len(ops)} ops")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
