#!/usr/bin/env python3
"""Makes a release's files in a folder: an archive and a wheel for each platform, a software bill of materials, checksums.

    python3 scripts/release/release.py --out dist

Archives are called as GoReleaser calls them, selfheal_VERSION_OS_ARCH.tar.gz (.zip for Windows), and hold the program,
README, CHANGELOG, LICENSE, the licences of what is linked into it, manual pages and completions. All dates are the
commit's, so that the same commit gives the same bytes.

Each file is then unpacked as its user does, and its program attacks a bundled network, where this machine can start it:
programs of Linux for arm64 by qemu-aarch64 and the C library in $QEMU_LD_PREFIX (Debian: qemu-user, libc6-arm64-cross).
A file that cannot be started here is named.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
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


def wheel(target, binary, seconds, folder):
    """The wheel with a built program: its name and its bytes."""
    environment = {**os.environ, "SELFHEAL_TARGET": target, "SELFHEAL_PROGRAM": str(binary), "SOURCE_DATE_EPOCH": str(seconds)}
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, program.ROOT / "scripts" / "python"]
    if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise program.BuildError(f"there is no wheel for {target}")
    (path,) = pathlib.Path(folder).iterdir()
    return path.name, path.read_bytes()


def starter(target):
    """The words before a program of a platform that start it on this machine; None where nothing does."""
    if target == program.host():
        return []
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if target == "linux/arm64" and program.host().startswith("linux/") and emulator:
        return [emulator] if "QEMU_LD_PREFIX" in os.environ else [emulator, "-L", "/usr/aarch64-linux-gnu"]
    return None


def start(name, data, target):
    """Unpack a release's file and let its program attack; says in a line what came of it, and raises BuildError."""
    words = starter(target)
    if words is None:
        return f"{name}: not tried, as programs for {target} do not start on this machine"
    with tempfile.TemporaryDirectory() as folder:
        file, here = io.BytesIO(data), pathlib.Path(folder)
        if name.endswith(".tar.gz"):
            tarfile.open(fileobj=file).extractall(here, filter="data")
            binary = here / program.file_name(target)
        else:
            zipfile.ZipFile(file).extractall(here)
            binary = here / "selfheal" / program.file_name(target)
            binary.chmod(0o755)  # as pip does
        zoo = program.ROOT / "models" / "zoo"
        attack = ["attack", zoo / "preact_robust.onnx", "--data", zoo / "shapes10" / "test.bin", "--limit", "4", "--attack", "fgsm",
                  "--epsilon", "8/255", "--out", here / "results"]
        try:
            done = subprocess.run([*words, binary, *attack], cwd=here, capture_output=True, text=True, check=False)
        except OSError as problem:
            raise program.BuildError(f"{name} does not start: {problem}") from None
    said = (done.stderr + done.stdout).strip().splitlines() or ["nothing"]
    if done.returncode != 0 or "robust accuracy" not in said[-1]:
        raise program.BuildError(f"{name}: its program ends with {done.returncode} and says {said[-1]}")
    return f"{name}: {said[-1]}"


def release(out):
    """Write a release's files into the folder `out`, which is emptied of an earlier one's, and start them."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=program.ROOT, check=True, capture_output=True).stdout:
        raise program.BuildError("files differ from the commit: a release is made of a commit")
    number, seconds, built, platforms = program.version(), commit_time(), {}, {}
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("selfheal_[0-9]*"), *out.glob("selfheal_onnx-*.whl")]:
        old.unlink()
    here = program.host()
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / program.file_name(here)
        program.build(here, own)
        shared = common(own)
        for target in program.TARGETS:
            place = pathlib.Path(folder) / target.replace("/", "_")
            place.mkdir()
            binary = own
            if target != here:
                binary = place / program.file_name(target)
                program.build(target, binary)
            files = {**shared, binary.name: binary.read_bytes()}
            windows = target.startswith("windows/")
            archive = f"selfheal_{number}_{target.replace('/', '_')}.{'zip' if windows else 'tar.gz'}"
            packed = {archive: (zipped if windows else tar)(files, seconds)}
            name, data = wheel(target, binary, seconds, place / "wheel")
            packed[name] = data
            built.update(packed)
            platforms.update(dict.fromkeys(packed, target))
    built[f"selfheal_{number}_sbom.cdx.json"] = bill_of_materials(number, seconds)
    built[f"selfheal_{number}_checksums.txt"] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(built.items())).encode()
    for name, data in built.items():
        (out / name).write_bytes(data)
        print(f"{out / name}  {len(data) / 1e6:.1f} MB")
    for name, target in platforms.items():
        print(start(name, built[name], target), flush=True)


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
