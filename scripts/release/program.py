#!/usr/bin/env python3
"""Builds the program for a platform, on any machine: for the wheel and for releases.

    python3 scripts/release/program.py --target linux/arm64 --out selfheal

zig is the C compiler (pip install ziglang), which has the C libraries of all of them with it: programs for Linux run on
glibc 2.28 and later, those for macOS on 12 and later. The same commit gives the same bytes.
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
# A line of Go's sources that names a function of a library of macOS.
IMPORTED = re.compile(r'^//go:cgo_import_dynamic \w+ (\w+) "(/[^"]+)"', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Target:
    """What a platform of Go is called elsewhere."""

    zig: str  # as a target of zig cc
    tag: str  # of its wheels


TARGETS = {
    "linux/amd64": Target("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "linux/arm64": Target("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "windows/amd64": Target("x86_64-windows-gnu", "win_amd64"),
    "darwin/amd64": Target(f"x86_64-macos.{MACOS}", f"macosx_{MACOS.replace('.', '_')}_x86_64"),
    "darwin/arm64": Target(f"aarch64-macos.{MACOS}", f"macosx_{MACOS.replace('.', '_')}_arm64"),
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


def write_stubs(folder):
    """Write into a folder what a linker has to know of the libraries of macOS that Go links beside the C library.

    Go's sources name each function that they take of them.
    """
    source, functions = pathlib.Path(go("env", "GOROOT")) / "src", {}
    for path in [*source.glob("crypto/x509/internal/macos/*.go"), source / "internal/syscall/unix/net_darwin.go"]:
        for function, library in IMPORTED.findall(path.read_text()):
            if "libSystem" not in library:  # zig's C library
                functions.setdefault(library, []).append("_" + function)
    machines = "[ x86_64-macos, arm64-macos ]"
    for library, names in functions.items():
        name = pathlib.Path(library).name.split(".")[0]  # Security, or libresolv of libresolv.9.dylib
        place = folder / f"{name}.framework" if ".framework/" in library else folder
        place.mkdir(exist_ok=True)
        (place / f"{name}.tbd").write_text(
            f"--- !tapi-tbd\ntbd-version: 4\ntargets: {machines}\ninstall-name: '{library}'\nexports:\n"
            f"  - targets: {machines}\n    symbols: [ {', '.join(sorted(set(names)))} ]\n...\n")


def build(target, out):
    """Write the program for a target of TARGETS to the file `out`."""
    if target not in TARGETS:
        raise BuildError(f"there is no program for {target}, only for {', '.join(TARGETS)}")
    system, architecture = target.split("/")
    with tempfile.TemporaryDirectory() as folder:
        libraries = f"-F {folder} -L {folder}" if system == "darwin" else ""
        compiler = pathlib.Path(folder) / "cc"  # a file of its own, as cgo takes no compiler with a space in its path
        zig = f'"{sys.executable}" -m ziglang cc -target {TARGETS[target].zig}'
        compiler.write_text(f'#!/bin/sh\nexec {zig} {libraries} "$@"\n')
        compiler.chmod(0o755)
        if system == "darwin":
            write_stubs(pathlib.Path(folder))
        environment = {**os.environ, "GOOS": system, "GOARCH": architecture, "CGO_ENABLED": "1", "CC": str(compiler),
                       "CGO_CFLAGS": "-O2 -g0", "CGO_CXXFLAGS": "-O2 -g0"}  # debugging symbols hold the compiler's folder
        command = ["go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w -buildid= -extldflags=-s",
                   "-o", os.path.abspath(out), "."]
        failed = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0
        (ROOT / "-.o").unlink(missing_ok=True)  # zig writes it where Go asks what compiler it is
        if failed:
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
