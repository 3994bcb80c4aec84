"""What the integration tests share: running ingotc and the executables it makes, from outside, as a user does.

Needs nothing but Python's standard library. Everything that a test writes lies in one temporary folder that goes when
it ends (INGOT_TEST_KEEP=DIR keeps it there).
"""
import array
import ast
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from project import BUILD, LLVM_BIN, ROOT  # noqa: E402,F401

CASES = os.path.join(ROOT, "test", "Integration", "cases")
INGOTC = os.path.join(BUILD, "bin", "ingotc")
INGOT_OPT = os.path.join(BUILD, "bin", "ingot-opt")
AARCH64 = "--target-triple=aarch64-linux-gnu"
EMULATOR = "qemu-aarch64"


class Failure(AssertionError):
    """Something that a test found to be wrong; its message is all that is printed."""


class Result:
    """What a program did: exit code (negative: killed by that signal), standard output (bytes) and standard error."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err

    def __str__(self):
        return f"{' '.join(map(str, self.argv))[:200]}: exit code {self.code}: {self.err.strip()[-400:]}"

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as e:
            raise Failure(f"not JSON from {self}: {e}: {self.out[:200]!r}") from e


def run(*argv, stdin=b"", timeout=300, cwd=None, env=None):
    """Runs a program to its end, whatever its exit code."""
    argv = [str(a) for a in argv]
    try:
        p = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, cwd=cwd,
                           env=env, check=False)
    except subprocess.TimeoutExpired as e:
        raise Failure(f"no answer in {timeout} s from {' '.join(argv)[:200]}") from e
    return Result(argv, p.returncode, p.stdout, p.stderr.decode("utf-8", "replace"))


def ok(*argv, **options):
    """Runs a program that must succeed."""
    result = run(*argv, **options)
    if result.code != 0:
        raise Failure(str(result))
    return result


def refused(*argv, codes=(1, 2), words=(), **options):
    """Runs a program that must end with one of these exit codes (1: failure, 2: usage) and an 'error:' line in which each
    of `words` stands."""
    result = run(*argv, **options)
    if result.code not in codes:
        raise Failure(f"expected exit code {' or '.join(map(str, codes))} from {result}")
    lines = [l for l in result.err.splitlines() if "error:" in l]
    if not lines:
        raise Failure(f"no line with 'error:' on standard error of {result}")
    for word in words:
        if not any(str(word).lower() in l.lower() for l in lines):
            raise Failure(f"{word!r} is not in the error of {result}")
    return result


def run_checks(checks):
    """Calls each check, which fails by a Failure; the exit code."""
    for check in checks:
        try:
            check()
        except Failure as e:
            print(f"failed {check.__name__}: {e}")
            return 1
        print(f"passed {check.__name__}", flush=True)
    return 0


def inside(root, *argv, **options):
    """Runs a program that must succeed, with `root` as its root directory and an empty environment."""
    if os.geteuid() == 0:
        change = [shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin"), root]
    else:
        change = [shutil.which("unshare"), "--map-root-user", "--root", root]
    return ok(*change, *argv, env={}, **options)


_folder = None


def folder():
    """The test's temporary folder."""
    global _folder
    if _folder is None:
        keep = os.environ.get("INGOT_TEST_KEEP")
        if keep:
            os.makedirs(keep, exist_ok=True)
        _folder = tempfile.mkdtemp(prefix="ingot-test-", dir=keep)
        if not keep:
            atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return _folder


def scratch(name):
    """A path in the test's folder."""
    return os.path.join(folder(), name)


def case_model(name):
    """The model of a golden case: a directory or a GGUF file."""
    with open(os.path.join(CASES, name, "golden.json"), encoding="utf-8") as f:
        return os.path.join(CASES, name, json.load(f)["model"])


def emulated(exe, cpu="max"):
    """A script that runs an AArch64 executable under qemu-user, as the CPU that qemu calls `cpu`."""
    path = f"{exe}.{cpu}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec {EMULATOR} -cpu {cpu} "{exe}" "$@"\n')
    os.chmod(path, 0o755)
    return path


CUDA = "--target=cuda"


def driven(exe, model, args, **settings):
    """A script that runs an executable for GPUs with the test double of the driver, which runs the kernels as the
    emulator's code of the host. `settings`: of the double (test/CudaDriver/driver_double.cpp), in lower case."""
    library = f"{exe}.kernels.so"
    double = os.path.join(BUILD, "test", "cuda-driver")
    if not os.path.exists(library):
        text, code = f"{exe}.kernels.ll", f"{exe}.kernels.o"
        same = [a for a in args if a != CUDA and not a.startswith("--cuda-arch")]
        ok(INGOTC, model, "--target=cuda-emulated", "--emit=llvm-ir", "-o", text, *same)
        ok(os.path.join(LLVM_BIN, "llc"), "-O1", "-relocation-model=pic", "-filetype=obj", text, "-o", code)
        ok(os.path.join(LLVM_BIN, "ld.lld"), "-shared", code, os.path.join(double, "libcuda.so.1"), "-o", library)
    lines = [f"LD_LIBRARY_PATH='{double}' INGOT_DOUBLE_KERNELS='{library}'"]
    lines += [f"INGOT_DOUBLE_{name.upper()}='{value}'" for name, value in settings.items()]
    path = f"{exe}.{'-'.join(settings) or 'driven'}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\n{" ".join(lines)} exec "{exe}" "$@"\n')
    os.chmod(path, 0o755)
    return path


_compiled = {}


def compiled(model, *args, cwd=None):
    """The executable of a model, a path or a golden case's name, compiled once per set of arguments. One for AArch64 or
    for GPUs is the script that runs it."""
    key = (model, args)
    if key not in _compiled:
        path = model if os.path.sep in model else case_model(model)
        exe = scratch(f"{len(_compiled)}-{os.path.basename(model)}")
        ok(INGOTC, path, "-o", exe, *args, cwd=cwd)
        if not os.access(exe, os.X_OK):
            raise Failure(f"ingotc {path} exited with 0 but wrote no executable")
        _compiled[key] = emulated(exe) if AARCH64 in args else driven(exe, path, args) if CUDA in args else exe
    return _compiled[key]


def ids(tokens):
    """Tokens as --tokens takes them."""
    return ",".join(map(str, tokens))


def logits(exe, tokens, *args):
    """Rows of logits, one per token."""
    return ok(exe, "logits", "--tokens", ids(tokens), "--json", *args).json["logits"]


def logits_file(exe, tokens, *args):
    """Rows of logits as arrays, through a .npy file: for vocabularies whose rows are too long for JSON."""
    path = scratch("logits.npy")
    ok(exe, "logits", "--tokens", ids(tokens), "-o", path, *args)
    with open(path, "rb") as f:
        magic, length = f.read(8), int.from_bytes(f.read(2), "little")
        header = ast.literal_eval(f.read(length).decode("latin-1"))
        if magic != b"\x93NUMPY\x01\x00" or header["descr"] != "<f4" or header["fortran_order"]:
            raise Failure(f"{path}: expected a .npy file of version 1.0 with float32 rows, got {magic!r} {header}")
        rows, columns = header["shape"]
        data = array.array("f", f.read())
    if sys.byteorder == "big":
        data.byteswap()
    if len(data) != rows * columns:
        raise Failure(f"{path}: expected {rows} x {columns} values, got {len(data)}")
    return [data[i * columns:(i + 1) * columns] for i in range(rows)]


def hashes(exe, *sequences, args=()):
    """A hash of the bits of each row of logits, for all tokens of all sequences, in order."""
    lines = ok(exe, "logits", "--hash", "--tokens", ";".join(ids(s) for s in sequences), *args).text.splitlines()
    return [line.split()[-1] for line in lines]  # sequence, position, hash


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
    return path
