"""What the tests in Python share: where the sources and the build are, and which files belong to the project."""
import os
import subprocess

ROOT = os.environ.get("INGOT_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("INGOT_BUILD_DIR") or os.path.join(ROOT, "build", "release")
LLVM_BIN = os.environ.get("INGOT_LLVM_BIN") or "/usr/lib/llvm-22/bin"


def git(*args):
    """The output of a git command in ROOT; None where it fails (a tarball is no repository)."""
    try:
        # A clone that another user made is a repository as well.
        done = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def tracked():
    """Paths of the project's files, relative to ROOT; without git everything but build folders."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        return sorted({p for p in listed.split("\0") if p and os.path.isfile(os.path.join(ROOT, p))})
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return sorted(found)
