"""Builds the Go program into the wheel; SELFHEAL_TARGET names another platform than this one, such as linux/arm64."""

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
        built = pathlib.Path(self.folder.name) / program.file_name(target)
        try:
            program.build(target, built)
        except program.BuildError as problem:
            raise SystemExit(f"error: {problem}") from None
        build_data["force_include"][str(built)] = f"selfheal/{built.name}"
        information = f"{self.metadata.name.replace('-', '_')}-{self.metadata.version}.dist-info"
        build_data["force_include"][str(ROOT / "LICENSE")] = f"{information}/licenses/LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{program.TARGETS[target].tag}"

    def finalize(self, version, build_data, artifact_path):
        self.folder.cleanup()
