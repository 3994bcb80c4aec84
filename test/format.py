#!/usr/bin/env python3
"""Checks that every C++ source of the project is formatted as .clang-format says; --fix formats them in place."""
import os
import subprocess
import sys

from project import LLVM_BIN, ROOT, tracked


def main():
    files = [p for p in tracked() if p.endswith((".cpp", ".h", ".c", ".cu"))]
    tool = os.path.join(LLVM_BIN, "clang-format")
    mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror", "-ferror-limit=1"]
    bad = 0
    for start in range(0, len(files), 64):
        done = subprocess.run([tool, *mode, *files[start:start + 64]], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        lines = [l for l in done.stderr.splitlines() if ": error:" in l]
        bad += len(lines) or done.returncode != 0
        sys.stdout.write("".join(l + "\n" for l in lines) if lines else done.stderr)
    if bad:
        print("format them with: python3 test/format.py --fix")
        return 1
    print(f"{len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
