#!/usr/bin/env python3
"""Makes a release's files in a folder: an archive for each platform, a software bill of materials, checksums.

    python3 scripts/release/release.py --out dist

Archives are called as GoReleaser calls them, selfheal_VERSION_OS_ARCH.tar.gz (.zip for Windows), and hold the program,
README, CHANGELOG, LICENSE, the licences of what is linked into it, manual pages and completions. All dates are the
commit's, so that the same commit gives the same bytes. The platforms are those of program.py that this machine can build.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
import zipfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from release import program
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

DOCUMENTS = ("README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md")
SHELLS = ("bash", "zsh", "fish", "powershell")
LICENCES = re.compile(r"(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$")


def commit_time():
    """Seconds since 1970 of the commit that is released."""
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=program.ROOT, check=True, capture_output=True)
    return int(shown.stdout)


def modules():
    """What the program is made of on any platform: path, version and folder of each module."""
    template = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
    listed = []
    for system in {target.split("/")[0] for target in program.TARGETS}:
        environment = {**os.environ, "GOOS": system, "CGO_ENABLED": "1"}
        listed += subprocess.run(["go", "list", "-deps", "-f", template, "."], cwd=program.ROOT, env=environment, check=True,
                                 capture_output=True, text=True).stdout.splitlines()
    return sorted({tuple(line.split(" ", 2)) for line in listed if line})


def licences():
    """The licence texts of Go and of the modules, one after another."""
    parts = []
    for name, number, folder in [("Go", program.go("env", "GOVERSION"), program.go("env", "GOROOT")), *modules()]:
        texts = [p for p in sorted(pathlib.Path(folder).iterdir()) if p.is_file() and LICENCES.match(p.name)]
        for path in texts or sorted(pathlib.Path(folder).glob("README*")):  # some state it in their README alone
            text = path.read_text(errors="replace")
            parts.append(f"{'=' * 80}\n{name} {number}: {path.name}\n{'=' * 80}\n\n{text}\n")
    return "".join(parts).encode()


def bill_of_materials(number, seconds):
    """The modules and Go's version as a CycloneDX document."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"selfheal@{number}"))
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    bom.metadata.component = Component(name="selfheal", version=number, type=ComponentType.APPLICATION, bom_ref="selfheal")
    known = [("std", program.go("env", "GOVERSION").removeprefix("go"), ""), *modules()]
    parts = [Component(name=path, version=version, type=ComponentType.LIBRARY, bom_ref=f"{path}@{version}",
                       purl=PackageURL("golang", *path.rpartition("/")[::2], version=version)) for path, version, _ in known]
    bom.components.update(parts)
    bom.register_dependency(bom.metadata.component, parts)
    return JsonV1Dot6(bom).output_as_string(indent=1).encode() + b"\n"


def common(own):
    """What every archive holds beside the program, by name; `own` is a program that runs here."""
    files = {name: (program.ROOT / name).read_bytes() for name in DOCUMENTS}
    files["THIRD_PARTY_LICENSES"] = licences()
    for shell in SHELLS:
        script = subprocess.run([own, "completion", shell], check=True, capture_output=True).stdout
        files[f"completions/selfheal.{shell}"] = script
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([own, "man", folder], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())})
        for page in sorted(pathlib.Path(folder).iterdir()):
            files[f"man/man1/{page.name}"] = page.read_bytes()
    return files


def tar(files, seconds):
    """A .tar.gz of files by name, of which the program alone can be run."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=seconds) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), seconds, 0o755 if name == "selfheal" else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zipped(files, seconds):
    """The same as a .zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, time.gmtime(seconds)[:6]), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def release(out):
    """Write a release's files into the folder `out`, which is emptied of an earlier one's."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=program.ROOT, check=True, capture_output=True).stdout:
        raise program.BuildError("files differ from the commit: a release is made of a commit")
    number, seconds, built = program.version(), commit_time(), {}
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("selfheal_[0-9]*"):
        old.unlink()
    here = program.host()
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / program.file_name(here)
        program.build(here, own)
        shared = common(own)
        for target, known in program.TARGETS.items():
            if known.zig is None and not here.startswith("darwin/"):
                print(f"{target} is left out: it is built on a Mac")
                continue
            binary = own
            if target != here:
                binary = pathlib.Path(folder) / target.replace("/", "_") / program.file_name(target)
                program.build(target, binary)
            files = {**shared, binary.name: binary.read_bytes()}
            windows = target.startswith("windows/")
            name = f"selfheal_{number}_{target.replace('/', '_')}.{'zip' if windows else 'tar.gz'}"
            built[name] = (zipped if windows else tar)(files, seconds)
    built[f"selfheal_{number}_sbom.cdx.json"] = bill_of_materials(number, seconds)
    built[f"selfheal_{number}_checksums.txt"] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(built.items())).encode()
    for name, data in built.items():
        (out / name).write_bytes(data)
        print(f"{out / name}  {len(data) / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"), help="folder (default %(default)s)")
    try:
        release(parser.parse_args().out)
    except (program.BuildError, OSError) as problem:
        print(f"release.py: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
