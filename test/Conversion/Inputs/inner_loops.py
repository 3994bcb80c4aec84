#!/usr/bin/env python3
"""What the innermost loops of a function do: reads assembly on stdin, and prints a line for each innermost loop of each
function whose name matches REGEX.

    inner_loops.py REGEX

NAME: loop of 31 instructions: 24 fmla, 8 loads, 0 stores, 0 on the stack (x86-64: vfmadd). Loads and stores count registers,
so that a pair counts twice, x86-64's also those that another instruction makes; what touches the stack pointer is a spill or
its reload, and counts as neither.
"""
import re
import sys

LABEL = re.compile(r"^([.\w$+-]+|\"[^\"]+\"):")
BRANCH = re.compile(r"^(?:b\.\w+|cbn?z|tbn?z|b|j\w+)\s.*?(\.L\w+)\s*$")
STACK = re.compile(r"\[sp\b|\(%[re]sp")
MULTIPLY_ADD = re.compile(r"vfm(add|sub)|vfnm(add|sub)")


def functions(lines):
    """Yields (name, instructions and local labels)."""
    name, body = None, []
    for line in lines:
        line = line.split("//")[0].split("#")[0].rstrip() if not line.startswith("\t.") else ""
        label = LABEL.match(line)
        if label and not label[1].startswith(".L"):
            if name:
                yield name, body
            name, body = label[1].strip('"'), []
        elif line.strip():
            body.append(line.strip())
    if name:
        yield name, body


def innermost(body):
    """Yields the bodies of the loops that hold no other: from a label to the last branch back to it."""
    labels = {line[:-1]: at for at, line in enumerate(body) if line.startswith(".L") and line.endswith(":")}
    back = {}
    for at, line in enumerate(body):
        branch = BRANCH.match(line)
        if branch and labels.get(branch[1], at) < at:
            back[labels[branch[1]]] = at
    for start, end in sorted(back.items()):
        if not any(start <= s and e <= end and (s, e) != (start, end) for s, e in back.items()):
            yield [line for line in body[start + 1:end + 1] if not line.endswith(":")]


def registers(line):
    """Vector or scalar registers that a load or store moves."""
    return len(line.split("[")[0].split(",")) - 1


def describe(loop):
    stack = [line for line in loop if STACK.search(line)]
    rest = [line for line in loop if not STACK.search(line)]
    counted = f"loop of {len(loop)} instructions:"
    fused = sum(bool(MULTIPLY_ADD.match(line)) for line in rest)
    if fused:
        # AT&T's syntax: the target comes last. A prefetch's line and an address that is only computed are no loads.
        memory = [line for line in rest if "(" in line and not re.match(r"prefetch|lea|j", line)]
        stores = sum(line.endswith(")") for line in memory)
        return f"{counted} {fused} vfmadd, {len(memory) - stores} loads, {stores} stores, {len(stack)} on the stack"
    fmla = sum(line.startswith("fmla") for line in rest)
    loads = sum(registers(line) for line in rest if re.match(r"ld[ruptn1-4]", line))
    stores = sum(registers(line) for line in rest if re.match(r"st[ruptn1-4]", line))
    return f"{counted} {fmla} fmla, {loads} loads, {stores} stores, {len(stack)} on the stack"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wanted = re.compile(sys.argv[1])
    for name, body in functions(sys.stdin):
        if wanted.search(name):
            for loop in innermost(body):
                print(f"{name}: {describe(loop)}")


if __name__ == "__main__":
    main()
