#!/usr/bin/env python3
"""ingot-lsp-server knows the dialect: a right file has no diagnostics, a wrong one has the verifier's, a hover over an
op says its name."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from project import BUILD  # noqa: E402

RIGHT = "func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n  %y = ingot.silu %x : tensor<?x8xf32>\n  return %y : tensor<?x8xf32>\n}\n"
WRONG = "func.func @f(%x: tensor<?x8xf32>) {\n  %a, %b = ingot.split %x : tensor<?x8xf32> -> tensor<?x4xf32>, tensor<?x3xf32>\n  return\n}\n"


def frame(message):
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def opened(uri, text):
    return frame({"method": "textDocument/didOpen",
                  "params": {"textDocument": {"uri": uri, "languageId": "mlir", "version": 1, "text": text}}})


def messages(data):
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.split(b"Content-Length:")[1].split()[0])
        yield json.loads(rest[:length])
        data = rest[length:]


def main():
    talk = frame({"id": 0, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}})
    talk += opened("file:///right.mlir", RIGHT) + opened("file:///wrong.mlir", WRONG)
    talk += frame({"id": 1, "method": "textDocument/hover",
                   "params": {"textDocument": {"uri": "file:///right.mlir"}, "position": {"line": 1, "character": 10}}})
    talk += frame({"id": 2, "method": "shutdown"}) + frame({"method": "exit"})
    done = subprocess.run([os.path.join(BUILD, "bin", "ingot-lsp-server")], input=talk, capture_output=True, timeout=60, check=False)
    diagnostics, hover = {}, ""
    for message in messages(done.stdout):
        if message.get("method") == "textDocument/publishDiagnostics":
            diagnostics[message["params"]["uri"]] = [d["message"] for d in message["params"]["diagnostics"]]
        if message.get("id") == 1:
            hover = json.dumps(message.get("result"))
    failures = []
    if diagnostics.get("file:///right.mlir") != []:
        failures.append(f"expected no diagnostics for the right file, got {diagnostics.get('file:///right.mlir')}")
    wrong = diagnostics.get("file:///wrong.mlir") or []
    if not any("C1: expected parts of 8 features together, got 7" in d for d in wrong):
        failures.append(f"expected the verifier's message for the wrong file, got {wrong}")
    if "ingot.silu" not in hover:
        failures.append(f"expected a hover over ingot.silu, got {hover}")
    if done.returncode:
        failures.append(f"exit status {done.returncode}: {done.stderr.decode()[-500:]}")
    print("\n".join(failures) if failures else "diagnostics and hover")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
