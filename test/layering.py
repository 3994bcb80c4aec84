#!/usr/bin/env python3
"""Checks what no compiler checks: which folder may include which (the table of the design, one row below for each), no
flag that lets the compiler re-associate floating point, nothing left to be done, no path of one machine, files and
functions short enough to live in, a header comment in every source. Prints each finding as FILE:LINE: what; exits 1.

    layering.py [--self-test]   --self-test: each rule finds a planted fault and passes a right text
"""
import ast
import os
import re
import sys

from project import ROOT, tracked

MAX_FUNCTION, MAX_FILE = 150, 1500

# Prefix of an include -> what it is. The longest prefix wins; what has no entry is an error that asks for one.
KINDS = {
    "dialects/": "dialects", "models/": "models", "models/Architecture.h": "architecture",
    "compiler/Import/": "import", "compiler/Text/": "text", "compiler/Transforms/": "transforms",
    "compiler/Conversion/": "conversion", "compiler/Codegen/": "codegen", "compiler/Target/": "target",
    "compiler/Pipelines/": "pipelines", "compiler/Evaluator/": "evaluator",
    "ingot_rt/abi.h": "abi", "ingot_rt/cpu_feature.h": "abi", "ingot_rt/image.h": "image",
    "ingot_rt/image_tokenizer.h": "image",
    "ingot_rt/image_template.h": "image",
    "ingot_rt/random.h": "random", "ingot_rt/device.h": "device", "ingot_rt/emulate.h": "device",
    "ingot_rt/sampling.h": "device",
    "runtime/": "runtime", "tools/": "tools", "test/": "test",
    "mlir/": "mlir", "mlir-c/": "mlir", "llvm/": "llvm", "llvm-c/": "llvm", "lld/": "lld", "nlohmann/": "json",
    "gtest/": "gtest", "gmock/": "gtest", "pcre2.h": "textlib", "utf8proc.h": "textlib", "xxhash.h": "xxhash", "histedit.h": "editline",
    "cuda.h": "cuda", "cuda_runtime.h": "cuda",
}
SYSTEM = re.compile(r"(?:(?:sys|linux|arpa|netinet|asm|bits)/)?[A-Za-z0-9_]+(?:\.h)?$")  # C++ standard library, POSIX
PASSES = {"transforms", "conversion", "codegen"}
COMPILER = PASSES | {"import", "text", "target", "pipelines", "evaluator", "architecture", "models", "dialects"}
RT_HEADERS = {"abi", "device", "image", "random"}

# Folder -> what its files may include, beside their own folder and the standard library. The longest folder wins.
MAY = {
    "dialects/": {"mlir", "llvm"},
    # The packed layouts are functions of abi.h (one definition for packer, kernels and runtime), so all three read it.
    "compiler/Transforms/": {"dialects", "mlir", "llvm", "abi"},
    "compiler/Codegen/": {"dialects", "mlir", "llvm", "abi", "device"},
    "compiler/Conversion/": {"dialects", "mlir", "llvm", "codegen", "transforms"} | RT_HEADERS,
    # Import drives the models through the one interface they implement, and reads weights that a seed defines.
    "compiler/Import/": {"dialects", "mlir", "llvm", "json", "image", "random", "architecture", "text", "xxhash"},
    "compiler/Text/": {"dialects", "mlir", "llvm", "json", "image", "textlib", "import"},
    "compiler/Evaluator/": {"dialects", "mlir", "llvm", "random"},
    "compiler/Target/": COMPILER | RT_HEADERS | {"mlir", "llvm", "lld", "xxhash"},
    "compiler/Pipelines/": COMPILER | RT_HEADERS | {"mlir", "llvm", "lld", "xxhash"},
    "models/": {"import", "dialects", "llvm", "architecture", "models"},
    "runtime/": RT_HEADERS | {"runtime", "cuda", "textlib", "xxhash", "editline"},
    "tools/": None,  # all
    "test/": None,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# Written in pieces so that this file does not find itself.
FAST_MATH = re.compile("|".join(["-f" "fast-math", "-O" "fast", "f" "associative-math", "f" "unsafe-math", r"\brea" "ssoc",
                                 "fastmath<" "fast", "setAllow" "Reassoc", r"FastMathFlags::" r"(?:fast|rea)", r"\bsetF" r"ast\("]))
LEFT = re.compile(r"\b(?:" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK", "GTEST_" "SKIP", "XF" "AIL"]) + r")\b|UNSUPPO" "RTED:")
MACHINE = re.compile("|".join(["/" "work/", "/" "farm/", "/" "root/", r"\." "library/", "/" r"home/\w", "/" "tmp/w/", r"\.py" "env/"]))
CODE = (".cpp", ".h", ".td", ".py", ".sh", ".cmake", ".mlir", ".cu", ".in", "CMakeLists.txt")
SOURCES = (".cpp", ".h", ".td", ".cu", ".py")


def longest(table, path):
    best = max((p for p in table if path.startswith(p)), key=len, default=None)
    return None if best is None else table[best]


def kind_of(include, path):
    if include.startswith("ingot_rt/"):
        return KINDS.get(include, "no such header of ingot_rt")
    known = longest(KINDS, include)
    if known:
        return known
    beside = os.path.normpath(os.path.join(os.path.dirname(path), include))
    if os.path.isfile(os.path.join(ROOT, beside)):
        return longest(KINDS, beside) or "no entry"
    if path.startswith(("runtime/", "test/")) and os.path.isfile(os.path.join(ROOT, "runtime/src", include)):
        return "runtime"
    return "system" if SYSTEM.match(include) else "no entry"


def check_includes(path, text):
    allowed = longest(MAY, path)
    if not path.endswith((".cpp", ".h", ".cu")) or allowed is None:
        return
    own = longest(KINDS, path)
    for m in INCLUDE.finditer(text):
        kind = kind_of(m.group(2), path)
        if kind in ("system", own) or kind in allowed:
            continue
        expected = ", ".join(sorted(allowed | {own or ""} - {""}))
        yield text.count("\n", 0, m.start()) + 1, f"includes {m.group(2)} ({kind}); this folder may include {expected}"


def check_words(path, text):
    code = path.endswith(CODE) or path.startswith(("tools/", ".ci/"))
    rules = [(MACHINE, "a path of one machine")]
    if code:
        rules += [(FAST_MATH, "lets floating point be re-associated, which breaks one result per sequence"), (LEFT, "left to be done")]
    if path.endswith((".cpp", ".h")) and not path.startswith(("tools/", "test/")):
        rules += [(re.compile(r"\bcl::" r"(?:opt|list)\b"), "a global command-line option in a library")]
    for pattern, what in rules:
        for m in pattern.finditer(text):
            yield text.count("\n", 0, m.start()) + 1, f"{what}: {m.group(0)!r}"


CXX_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
                       r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|[{};]|[^{};\"'/#]+|.", re.S | re.M)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b[^()=]*$")


def cxx_functions(text):
    """Yields (first line, lines, head) of each function body that lies in no other."""
    depth, opened, head, line, head_line = [], None, "", 1, 1
    for m in CXX_TOKEN.finditer(text):
        token = m.group(0)
        if token == "{":
            flat = re.sub(r"\s+", " ", head).strip()
            scope = bool(SCOPE.search(re.sub(r"<[^<>]*>", "", flat))) or not flat
            depth.append("scope" if scope else "body")
            if not scope and opened is None:
                data = re.search(r"=\s*$", flat) or "(" not in flat
                opened = (len(depth), None if data else (head_line, flat))
            head = ""
        elif token == "}":
            if opened and len(depth) == opened[0]:
                if opened[1]:
                    yield opened[1][0], line - opened[1][0] + 1, opened[1][1]
                opened = None
            if depth:
                depth.pop()
            head = ""
        elif token == ";":
            head = ""
        elif not token.startswith(("//", "/*", "#")) and not token.lstrip().startswith("#"):
            if not head.strip() and token.strip():
                head_line = line + token[:len(token) - len(token.lstrip())].count("\n")
            head += token
        line += token.count("\n")


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def check_lengths(path, text):
    if not path.endswith(CODE):
        return
    lines = text.count("\n") + 1
    if lines > MAX_FILE:
        yield 1, f"{lines} lines; a file has at most {MAX_FILE}"
    functions = python_functions(text) if path.endswith(".py") else cxx_functions(text) if path.endswith((".cpp", ".h", ".cu")) else ()
    for first, count, head in functions:
        if count > MAX_FUNCTION:
            yield first, f"{head[:80]} has {count} lines; a function has at most {MAX_FUNCTION}"


def check_header(path, text):
    if path.endswith(SOURCES) and text.strip() and not re.match(r"(?:#!.*\n)?\s*(?://|/\*|#|\"\"\"|r\"\"\")", text):
        yield 1, "no comment at the top that says what the file does"


CHECKS = (check_includes, check_words, check_lengths, check_header)


def findings(path, text):
    for check in CHECKS:
        for line, what in check(path, text):
            yield f"{path}:{line}: {what}"


def self_test():
    header = "// Does a thing.\n"
    long_body = "void f(int a) {\n" + "  g();\n" * MAX_FUNCTION + "}\n"
    nested = "namespace x {\nstruct S {\n  int a = 3;\n  void f(std::vector<int> v) const {\n" + "    { g(\"}\"); }\n" * MAX_FUNCTION + "  }\n};\n}\n"
    wrong = [
        ("dialects/ingot/A.cpp", '#include "compiler/Import/Checkpoint.h"\n', "import"),
        ("dialects/ingot/A.cpp", '#include <nlohmann/json.hpp>\n', "json"),
        ("compiler/Transforms/A.cpp", '#include "compiler/Import/Checkpoint.h"\n', "import"),
        ("compiler/Transforms/A.cpp", '#include "compiler/Pipelines/Pipelines.h"\n', "pipelines"),
        ("compiler/Evaluator/A.cpp", '#include "compiler/Codegen/CPU/Tile.h"\n', "codegen"),
        ("compiler/Evaluator/A.cpp", '#include "ingot_rt/abi.h"\n', "abi"),
        ("compiler/Import/A.cpp", '#include "compiler/Transforms/Passes.h"\n', "transforms"),
        ("compiler/Target/A.cpp", '#include "runtime/src/pool/Pool.h"\n', "runtime"),
        ("models/A.cpp", '#include "compiler/Transforms/Passes.h"\n', "transforms"),
        ("runtime/src/a/A.cpp", '#include "llvm/ADT/StringRef.h"\n', "llvm"),
        ("runtime/src/a/A.cpp", '#include "dialects/ingot/Ingot.h"\n', "dialects"),
        ("runtime/src/a/A.cpp", '#include <boost/any.hpp>\n', "no entry"),
        ("compiler/Target/A.cpp", "flags.push_back(\"-f" "fast-math\");\n", "re-associated"),
        ("tools/x.cpp", "// TO" "DO: later\n", "left to be done"),
        ("docs/x.md", "see /" "work/shared\n", "a path of one machine"),
        ("compiler/Target/A.cpp", "static llvm::cl::" "opt<int> x;\n", "command-line option"),
        ("compiler/Target/A.cpp", long_body, "152 lines"),
        ("compiler/Target/A.cpp", nested, "152 lines"),
        ("test/a.py", "def f():\n" + "    g()\n" * MAX_FUNCTION, "151 lines"),
        ("compiler/Target/A.cpp", "int a;\n" * MAX_FILE, "lines; a file"),
    ]
    right = [
        ("compiler/Target/A.cpp", '#include "compiler/Transforms/Passes.h"\n#include "lld/Common/Driver.h"\n#include <vector>\n#include <sys/mman.h>\n'),
        ("compiler/Target/A.cpp", "static const int table[] = {\n" + "  1,\n" * 300 + "};\n"),
        ("compiler/Target/A.cpp", "namespace a {\n" + "int f() {\n  return '{';\n}\n" * 100 + "}\n"),
        ("runtime/src/a/A.cpp", '#include "ingot_rt/abi.h"\n#include <pcre2.h>\n#include <unistd.h>\n'),
        ("runtime/src/a/A.cpp", 'char name[] = "/tmp/x-XXXXXX";\n'),
    ]
    trouble = 0
    for path, text, words in wrong:
        found = list(findings(path, header.replace("//", "#" if path.endswith(".py") else "//") + text))
        if not any(words in f for f in found):
            trouble += 1
            print(f"not found in {path}: {text[:60]!r}: {found}")
    if not any("no comment" in f for f in findings("test/x.py", "import os\n")):
        trouble += 1
        print("a missing header comment was not found")
    for path, text in right:
        for f in findings(path, header + text):
            trouble += 1
            print(f"found where nothing is wrong: {f}")
    print(f"{len(wrong) + 1 + len(right) - trouble} passed, {trouble} failed")
    return 1 if trouble else 0


def main():
    if self_test():
        return 1
    if "--self-test" in sys.argv[1:]:
        return 0
    bad, files = [], tracked()
    for path in files:
        if path == "LICENSE" or path.startswith("test/Integration/cases/"):
            continue
        with open(os.path.join(ROOT, path), "rb") as f:
            data = f.read()
        if b"\0" in data[:8192]:
            continue
        bad += findings(path, data.decode("utf-8", "replace"))
    print("\n".join(bad) if bad else f"{len(files)} files")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
