"""What ptxas says of kernels: registers, shared memory, spills, for each architecture; shared by the test that allows no
spill and by tools/kernel-model, which prints the tables."""
import os
import re
import shutil
import subprocess
import tempfile

from support import INGOTC, Failure

PROPERTIES = re.compile(r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes "
                        r"spill loads\s+ptxas info\s+: Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?")


def find_ptxas():
    """On PATH, in CUDA_HOME or where tools/setup puts it; None if it is nowhere."""
    home = os.environ.get("CUDA_HOME")
    return shutil.which("ptxas") or next(filter(None, (shutil.which("ptxas", path=os.path.join(p, "bin")) for p in (
        home or "/usr/local/cuda", "/usr/local/lib/ingot-cuda"))), None)


def emit(stage, model, architectures, *args, ingotc=INGOTC):
    """The PTX, or the machine code (stage sass), of a model's kernels by architecture."""
    command = [ingotc, model, "--target=cuda", "--cuda-arch=" + ",".join(architectures), "--emit=" + stage, *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
    parts = re.split(r"^// (sm_\d+)\n", done.stdout, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def kernels_of(ptx):
    """The names of the kernels of one architecture's PTX."""
    return re.findall(r"\.entry (\S+?)\(", ptx)


class Resources:
    """Of one kernel: registers of a thread, bytes of shared memory of a block, bytes of stack and of spills."""

    def __init__(self, stack, stores, loads, registers, shared):
        self.stack, self.stores, self.loads = int(stack), int(stores), int(loads)
        self.registers, self.shared = int(registers), int(shared or 0)

    @property
    def spills(self):
        return self.stack + self.stores + self.loads

    @property
    def trouble(self):
        """What is wrong, or an empty text."""
        return f"{self.stack} bytes of stack, spills {self.stores} + {self.loads} bytes" if self.spills else ""


def parse_report(report):
    """What `ptxas -v` prints, by kernel."""
    return {found[0]: Resources(*found[1:]) for found in PROPERTIES.findall(report)}


def assemble(ptxas, architecture, ptx):
    """Resources by kernel. Fails where ptxas does, or does not speak of each kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernels.ptx")
        with open(source, "w", encoding="utf-8") as f:
            f.write(ptx)
        done = subprocess.run([ptxas, "-v", "-arch=" + architecture, source, "-o", os.path.join(folder, "kernels.cubin")],
                              stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failure(f"ptxas for {architecture}: {done.stdout.strip()[-300:]}")
    resources = parse_report(done.stdout)
    if sorted(resources) != sorted(kernels_of(ptx)):
        raise Failure(f"ptxas speaks of {len(resources)} kernels for {architecture}, the PTX has {len(kernels_of(ptx))}")
    return resources
