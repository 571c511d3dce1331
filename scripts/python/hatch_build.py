"""Builds the Go program into the wheel; SELFHEAL_TARGET names another platform than this one, such as linux/arm64.
SELFHEAL_PROGRAM is a program that is built already."""

import os
import pathlib
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from release import program  # noqa: E402


class ProgramHook(BuildHookInterface):
    def initialize(self, version, build_data):
        target = os.environ.get("SELFHEAL_TARGET") or program.host()
        self.folder = tempfile.TemporaryDirectory()
        built = os.environ.get("SELFHEAL_PROGRAM") or os.path.join(self.folder.name, "selfheal")
        try:
            if "SELFHEAL_PROGRAM" not in os.environ:
                program.build(target, built)
        except program.BuildError as problem:
            raise SystemExit(f"error: {problem}") from None
        build_data["force_include"][built] = f"selfheal/{program.file_name(target)}"
        information = f"{self.metadata.name.replace('-', '_')}-{self.metadata.version}.dist-info"
        build_data["force_include"][str(ROOT / "LICENSE")] = f"{information}/licenses/LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{program.TARGETS[target].tag}"

    def finalize(self, version, build_data, artifact_path):
        self.folder.cleanup()
