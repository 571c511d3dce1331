#!/usr/bin/env python3
"""Builds the program for a platform, on any machine: for the wheel and for releases.

    python3 scripts/release/program.py --target linux/arm64 --out selfheal

For Linux and Windows zig is the C compiler (pip install ziglang), which has their C libraries with it: programs for Linux
run on glibc 2.28 and later. For macOS it is the system's compiler, on a Mac. The same commit gives the same bytes.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACOS = "12.0"  # the oldest that Go 1.26 supports


@dataclasses.dataclass(frozen=True)
class Target:
    """What a platform of Go is called elsewhere."""

    zig: str | None  # as a target of zig cc; None: the system's compiler
    tag: str  # of its wheels


TARGETS = {
    "linux/amd64": Target("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "linux/arm64": Target("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "windows/amd64": Target("x86_64-windows-gnu", "win_amd64"),
    "darwin/amd64": Target(None, f"macosx_{MACOS.replace('.', '_')}_x86_64"),
    "darwin/arm64": Target(None, f"macosx_{MACOS.replace('.', '_')}_arm64"),
}


class BuildError(Exception):
    """A platform or a machine for which there is no program; the message is one line."""


def go(*arguments):
    """What Go prints."""
    return subprocess.run(["go", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def version():
    """The program's, which stands in harness/doc.go."""
    return re.search(r'const Version = "([^"]+)"', (ROOT / "harness" / "doc.go").read_text()).group(1)


def host():
    """This machine's platform."""
    return go("env", "GOHOSTOS") + "/" + go("env", "GOHOSTARCH")


def file_name(target):
    return "selfheal.exe" if target.startswith("windows/") else "selfheal"


def build(target, out):
    """Write the program for a target of TARGETS to the file `out`."""
    if target not in TARGETS:
        raise BuildError(f"there is no program for {target}, only for {', '.join(TARGETS)}")
    zig = TARGETS[target].zig
    if zig is None and not host().startswith("darwin/"):
        raise BuildError(f"{target} is built on a Mac: its C library cannot be had elsewhere")
    system, architecture = target.split("/")
    environment = {**os.environ, "GOOS": system, "GOARCH": architecture, "CGO_ENABLED": "1",
                   "MACOSX_DEPLOYMENT_TARGET": MACOS,
                   "CGO_CFLAGS": "-O2 -g0", "CGO_CXXFLAGS": "-O2 -g0"}  # debugging symbols hold the compiler's folder
    with tempfile.TemporaryDirectory() as folder:
        if zig is not None:  # a file of its own, as cgo takes no compiler with a space in its path
            compiler = pathlib.Path(folder) / "cc"
            compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {zig} "$@"\n')
            compiler.chmod(0o755)
            environment["CC"] = str(compiler)
        command = ["go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w -buildid= -extldflags=-s", "-o", os.path.abspath(out), "."]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
            raise BuildError(f"go build has failed for {target}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="platform, as Go names it (default: this machine's)")
    parser.add_argument("--out", required=True, help="the program's file")
    arguments = parser.parse_args()
    try:
        build(arguments.target or host(), arguments.out)
    except BuildError as problem:
        print(f"program.py: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
