#!/usr/bin/env python3
"""Runs what docs/*.md and the READMEs show: every ```console block, and every ```mlir block that is a whole module.

In a console block a line that starts with "$ " is a command (a following "> " line continues it); what stands below it
is what the command prints, standard error included. A line that is only "..." stands for any lines, "..." inside a line
for any text; spaces count as one. The blocks of a file run one after the other in one empty folder, with the programs on
PATH and INGOT naming the checkout. A command must succeed; "# exit 1" at its end says otherwise. A module is given to
ingot-opt, which must accept it, with --verify-roundtrip.
"""
import os
import re
import subprocess
import sys
import tempfile

from project import BUILD, LLVM_BIN, ROOT, tracked

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.M | re.S)


def commands(block):
    """Yields (command, exit code, expected lines) of a console block."""
    command, expected = None, []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield split_exit(command) + (expected,)
            command, expected = line[2:], []
        elif line.startswith("> ") and command is not None and not expected:
            command += "\n" + line[2:]
        else:
            expected.append(line)
    if command is not None:
        yield split_exit(command) + (expected,)


def split_exit(command):
    m = re.search(r"\s+# exit (\d+)$", command)
    return (command[:m.start()], int(m.group(1))) if m else (command, 0)


def matches(expected, line):
    pattern = ".*".join(re.escape(re.sub(r"\s+", " ", part)) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, re.sub(r"\s+", " ", line.strip())) is not None


def first_missing(expected, printed):
    """The first expected line that does not come where it should; None where all do."""
    at, anywhere = 0, False
    for want in expected:
        if want.strip() == "...":
            anywhere = True
            continue
        if not want.strip():
            continue
        while at < len(printed) and not printed[at].strip():
            at += 1
        if anywhere:
            while at < len(printed) and not matches(want, printed[at]):
                at += 1
        if at >= len(printed) or not matches(want, printed[at]):
            return want, printed[at] if at < len(printed) else "(the end)"
        at, anywhere = at + 1, False
    rest = [p for p in printed[at:] if p.strip()]
    if rest and not anywhere and any(e.strip() for e in expected):
        return "(the end)", rest[0]
    return None


def run(command, folder, stdin=""):
    environment = dict(os.environ, INGOT=ROOT, PATH=os.pathsep.join([os.path.join(BUILD, "bin"), LLVM_BIN, os.environ["PATH"]]))
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_file(path):
    """Yields what is wrong in a file, and how many snippets ran."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    ran = 0
    with tempfile.TemporaryDirectory(prefix="ingot-docs-") as folder:
        for m in BLOCK.finditer(text):
            line = text.count("\n", 0, m.start()) + 1
            if m.group(1) == "console":
                for command, code, expected in commands(m.group(2)):
                    ran += 1
                    got, printed = run(command, folder)
                    if got != code:
                        yield f"{path}:{line}: `{command}`: expected exit code {code}, got {got}: {printed.strip()[-600:]}"
                        continue
                    missing = first_missing(expected, printed.splitlines())
                    if missing:
                        yield f"{path}:{line}: `{command}`: expected the line {missing[0].strip()!r}, got {missing[1].strip()!r}"
            elif m.group(1) == "mlir" and re.match(r"\s*(//[^\n]*\n\s*)*module\b", m.group(2)):
                ran += 1
                got, printed = run("ingot-opt --verify-roundtrip -o /dev/null -", folder, m.group(2))
                if got != 0:
                    yield f"{path}:{line}: ingot-opt refuses the module: {printed.strip()[-600:]}"
    yield ran


def self_test():
    printed = ["module {", "  a = 1 : i64", "", "  b", "}"]
    right = [["module {", "...", "  b", "}"], ["module {", "a = ... : i64", "b", "}"], ["..."], [], ["...", "a = 1 : i64", "..."]]
    wrong = [["module {", "  b", "}"], ["module {", "...", "c", "..."], ["module {"], ["...", "b", "a = 1 : i64", "..."], ["...", "}", "}"]]
    bad = [e for e in right if first_missing(e, printed)] + [e for e in wrong if not first_missing(e, printed)]
    if list(commands("$ a # exit 1\n$ b \\\n> c\nout\n")) != [("a", 1, []), ("b \\\nc", 0, ["out"])]:
        bad.append("commands")
    for e in bad:
        print(f"self-test: {e}")
    return len(bad)


def main():
    failures = self_test()
    for path in tracked():
        if path.endswith(".md") and not path.startswith("test/Integration/cases/"):
            for what in check_file(path):
                if isinstance(what, str):
                    failures += 1
                    print(what)
                elif what:
                    print(f"{path}: {what} snippets")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
