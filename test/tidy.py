#!/usr/bin/env python3
"""Runs clang-tidy over the sources changed since the last landing, tests left out, or over all (--full, or
INGOT_CHECK_FULL=1).

Changed is what differs from the merge base with origin/main, or, where that is HEAD itself (a fresh clone), from the
newest commit that is over four hours old. Where there is none, everything is new. INGOT_CHECK_BASE names another commit.
A changed header is checked through one source that includes it. A source that passed is not checked again while it, the
project's headers that it includes and the .clang-tidy files stay the same (build/<preset>/tidy).
"""
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time

from project import BUILD, LLVM_BIN, ROOT, git, tracked

CONFIGURATION = (".clang-tidy", os.path.join("test", ".clang-tidy"))
JOBS = max(1, min(2, os.cpu_count() or 1))


def changed_files():
    """Paths that differ from the base, or None for all of them, and words that say which base it is."""
    base = os.environ.get("INGOT_CHECK_BASE")
    if not base:
        head = (git("rev-parse", "HEAD") or "").strip()
        base = (git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main") or "").strip()
        if base in ("", head):
            base = (git("rev-list", "-1", "--before=4 hours ago", "HEAD") or "").strip()
    if not base:
        return None, "no older commit"
    names = git("diff", "--name-only", "-z", base)
    if names is None:
        return None, f"no such base: {base}"
    fresh = git("ls-files", "-z", "--others", "--exclude-standard") or ""
    return set((names + fresh).split("\0")) - {""}, f"since {base[:12]}"


def compile_commands():
    path = os.path.join(BUILD, "compile_commands.json")
    if not os.path.exists(path):
        sys.exit(f"error: {path}: not there; expected what CMake writes for a build with sources")
    with open(path, encoding="utf-8") as f:
        entries = json.load(f)
    found = {}
    for e in entries:
        path = os.path.relpath(os.path.join(e["directory"], e["file"]), ROOT)
        if not path.startswith(".."):
            found.setdefault(path, e)
    return found


def write_database(commands, folder):
    """A compilation database with one entry for each source: a source that two targets compile is checked once."""
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump(list(commands.values()), f)


def dependencies():
    """source -> the project's files that its object was compiled from, as ninja recorded them."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    found, current = {}, None
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            current = set() if line else None
            continue
        path = os.path.relpath(os.path.join(BUILD, line.strip()), ROOT)
        if current is None or path.startswith((".." + os.sep, "build" + os.sep)):
            continue
        if not current:
            found.setdefault(path, current)
        current.add(path)
    return found


def digest(path, deps):
    h = hashlib.sha256(b"1")
    for p in [*CONFIGURATION, path, *sorted(deps.get(path, ()))]:
        with open(os.path.join(ROOT, p), "rb") as f:
            h.update(p.encode() + b"\0" + f.read())
    return h.hexdigest()


def choose(sources, deps, changed):
    """The sources to check for a set of changed files."""
    chosen = [s for s in sources if s in changed]
    covered = set().union(*(deps.get(s, {s}) for s in chosen)) if chosen else set()
    for header in sorted(h for h in changed if h.endswith(".h") and h not in covered):
        users = [s for s in sources if header in deps.get(s, ())]
        if users:
            user = min(users, key=lambda s: (os.path.dirname(s) != os.path.dirname(header), os.path.getsize(os.path.join(ROOT, s))))
            chosen.append(user)
            covered |= deps[user]
    return chosen


def tidy(path, database):
    begin = time.monotonic()
    done = subprocess.run([os.path.join(LLVM_BIN, "clang-tidy"), "-p", database, "--quiet", os.path.join(ROOT, path)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    errors = done.stdout if done.returncode else ""
    if done.returncode and not errors.strip():
        errors = done.stderr
    return errors.replace(ROOT + os.sep, ""), time.monotonic() - begin


def main():
    full = "--full" in sys.argv[1:] or os.environ.get("INGOT_CHECK_FULL") == "1"
    files = set(tracked())
    commands, deps = compile_commands(), dependencies()
    sources = sorted(s for s in commands if s in files)
    if not sources:
        sys.exit("error: compile_commands.json names no source of the project")
    changed, words = (None, "--full") if full else changed_files()
    if changed is None or not changed.isdisjoint(CONFIGURATION):
        chosen, words = sources, words + ": all"
    else:
        chosen = choose(sources, deps, changed)
    if not full:
        chosen = [s for s in chosen if not s.startswith("test/")]
    passed = os.path.join(BUILD, "tidy")
    os.makedirs(passed, exist_ok=True)
    write_database(commands, passed)
    marks = {s: os.path.join(passed, digest(s, deps)) for s in chosen}
    todo = [s for s in chosen if not os.path.exists(marks[s])]
    todo.sort(key=lambda s: -os.path.getsize(os.path.join(ROOT, s)))
    bad, said = 0, set()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for path, (errors, seconds) in zip(todo, pool.map(lambda s: tidy(s, passed), todo)):
            print(f"{path}: {seconds:.0f} s", flush=True)
            if errors:
                bad += 1
                # A finding in a header comes once for each source that includes it.
                for finding in re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning):)", errors.strip()):
                    if finding not in said:
                        said.add(finding)
                        print(finding)
            else:
                with open(marks[path], "w", encoding="utf-8"):
                    pass
    print(f"{words}: {len(chosen)} of {len(sources)} sources, {len(todo)} checked now, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
