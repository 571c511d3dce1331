"""Builds the Go program into the wheel.

SELFHEAL_TARGET names the platform, as in Go: linux/amd64, linux/arm64, windows/amd64 (default: this machine's). For
Linux and Windows zig is the C compiler, which has their C libraries of every version with it: programs for Linux run on
glibc 2.28 and later, and none needs a machine of its kind. On macOS it is the system's compiler.
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Go's name of a platform to zig's and the wheel's.
TARGETS = {
    "linux/amd64": ("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "linux/arm64": ("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "windows/amd64": ("x86_64-windows-gnu", "win_amd64"),
    "darwin/arm64": (None, "macosx_12_0_arm64"),
    "darwin/amd64": (None, "macosx_12_0_x86_64"),
}
ROOT = pathlib.Path(__file__).resolve().parents[2]


class ProgramHook(BuildHookInterface):
    def initialize(self, version, build_data):
        target = os.environ.get("SELFHEAL_TARGET") or go("env", "GOHOSTOS") + "/" + go("env", "GOHOSTARCH")
        if target not in TARGETS:
            raise SystemExit(f"SELFHEAL_TARGET {target}: there is no wheel for it, only for {', '.join(TARGETS)}")
        system, architecture = target.split("/")
        zig, tag = TARGETS[target]
        self.folder = tempfile.TemporaryDirectory()
        program = pathlib.Path(self.folder.name) / ("selfheal.exe" if system == "windows" else "selfheal")
        environment = {**os.environ, "GOOS": system, "GOARCH": architecture, "CGO_ENABLED": "1"}
        if zig:
            environment["CC"] = f"{self.compiler(zig)}"
        else:
            environment["MACOSX_DEPLOYMENT_TARGET"] = tag.split("_", 1)[1].rsplit("_", 1)[0].replace("_", ".")
        subprocess.run(
            ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."],
            cwd=ROOT,
            env=environment,
            check=True,
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        build_data["force_include"][str(program)] = f"selfheal/{program.name}"
        information = f"{self.metadata.name.replace('-', '_')}-{self.metadata.version}.dist-info"
        build_data["force_include"][str(ROOT / "LICENSE")] = f"{information}/licenses/LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"

    def compiler(self, target):
        """A command that is zig's C compiler for a target: cgo takes a command without spaces in its path."""
        command = pathlib.Path(self.folder.name) / "cc"
        command.write_text(f'#!/bin/sh\nexec {json.dumps(sys.executable)} -m ziglang cc -target {target} "$@"\n')
        command.chmod(0o755)
        return command

    def finalize(self, version, build_data, artifact_path):
        self.folder.cleanup()


def go(*arguments):
    return subprocess.run(["go", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
