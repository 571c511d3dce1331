#!/usr/bin/env python3
"""Spends the first hour of three users, with a fresh clone and an empty home, by README's and the pages' own commands

    python3 scripts/verify/first_hour.py --python ~/torch/bin/python --out first-hour.log

The student has a PyTorch network and a notebook, the engineer a folder of photos and a CI job, the third has read the
paper. Each command is taken from a page as it stands and given once, in the page's order; the log has its seconds, its
exit code and its last line. A command that does not end with 0 ends its user's hour, and the script ends with 1.

--python is an interpreter with PyTorch, whose packages the student's environment sees. Student and engineer have a file
that `make release` makes: --release names a folder of them, otherwise they are made in a clone.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "models" / "zoo"
# Commands that are not given, by how they begin, and why.
LEFT_OUT = {
    "go test": "CI runs it",
    "selfheal run --suite table2-standard": "it needs the paper's networks, as the page says",
    "selfheal check --baseline baseline.json --model": "it needs a second network",
}


@dataclasses.dataclass(frozen=True)
class Part:
    """The commands below a heading of a page, or those of them that begin with a word of `only`."""

    page: str
    heading: str
    only: tuple[str, ...] = ()


STUDENT = [Part("README.md", "Install", ("pip",)), Part("README.md", "Attack your network"),
           Part("README.md", "Python")]
ENGINEER = [Part("README.md", "Install", ("tar",)), Part("README.md", "Attack your network", ("selfheal",)),
            Part("README.md", "A config"), Part("README.md", "In CI"), Part("docs/ci.md", "The first baseline"),
            Part("docs/ci.md", "Caches, and machines without a network"), Part("docs/ci.md", "Accepting a change")]
READER = [Part("README.md", "Install", ("go", "selfheal")), Part("README.md", "More"),
          Part("docs/paper.md", "How to repeat it"), Part("docs/measured/theory.md", "The theory, checked")]


def section(page, heading):
    """The lines of a page between a heading and the next."""
    text = (ROOT / page).read_text()
    found = re.search(rf"(?ms)^#+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", text)
    if not found:
        sys.exit(f"first_hour.py: error: {page} has no heading {heading}")
    return found.group(1).splitlines()


def commands(part):
    """The part's commands in the page's order: (sh, a line), or (a block's language, its text)."""
    language, block, found = None, [], []
    for line in section(part.page, part.heading):
        if line.startswith("```"):
            if language not in (None, "sh", "console"):
                found.append((language, "\n".join(block) + "\n"))
            language, block = (line[3:], []) if language is None else (None, [])
        elif language == "sh" or language is None and line.startswith("    "):
            found.append(("sh", line.split("  #")[0].strip()))
        elif language == "console" and line.startswith("$ "):
            found.append(("sh", line[2:]))
        elif language is None:
            found += [("sh", inline) for inline in re.findall(r"`((?:selfheal run|go build) [^`]*)`", line)]
        else:
            block.append(line)
    return [(kind, command) for kind, command in found if not part.only or command.startswith(part.only)]


class Hour:
    """A user: a folder, an environment, and the log of what was done there."""

    def __init__(self, name, folder, log, path=()):
        self.name, self.folder, self.log = name, folder, log
        folder.mkdir(parents=True)
        home = folder.parent / f"home-{name}"
        home.mkdir()
        self.environment = {**os.environ, "HOME": str(home), "GOPATH": str(home / "go"),
                            "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]])}
        for variable in ("XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "ONNXRUNTIME_SHARED_LIBRARY", "VIRTUAL_ENV"):
            self.environment.pop(variable, None)
        self.began, self.passed = time.monotonic(), True

    def say(self, *words):
        print(*words, file=self.log, flush=True)

    def record(self, page, command, seconds, code, last):
        self.passed &= code == 0
        mark = "" if code == 0 else "  FAILED"
        self.say(f"{seconds:8.1f} s  exit {code}{mark}  {page}: {command}\n{'':12}{last}")

    def shell(self, page, command):
        began = time.monotonic()
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        said = done.stdout.strip().splitlines() or [""]
        self.record(page, command, time.monotonic() - began, done.returncode, said[-1])
        if done.returncode != 0:
            self.say("\n".join(said[-20:]))

    def python(self, page, lines):
        """Run a block as the next cell of the notebook."""
        began = time.monotonic()
        self.notebook.stdin.write(json.dumps(lines) + "\n")
        self.notebook.stdin.flush()
        answer = self.notebook.stdout.readline()
        error = json.loads(answer) if answer else "the notebook has ended"
        self.record(page, lines.strip().replace("\n", f"\n{'':27}"), time.monotonic() - began, int(bool(error)), error)

    def spend(self, parts):
        for part in parts:
            for kind, command in commands(part):
                if not self.passed:
                    return
                why = next((why for prefix, why in LEFT_OUT.items() if command.startswith(prefix)), None)
                if why:
                    self.say(f"{'':10}  not given  {part.page}: {command}\n{'':12}{why}")
                elif kind == "sh":
                    self.shell(part.page, command)
                elif kind == "yaml" and command.startswith("# "):
                    (self.folder / command.split("\n")[0][2:]).write_text(command)
                elif kind == "python" and self.notebook:
                    self.python(part.page, command)

    notebook = None


def write_photos(python, folder, file, n):
    """Write the first images of a file of the zoo into a folder for each class, as PNG, by Pillow."""
    program = ("import pathlib, sys\nfrom PIL import Image\nimport numpy\n"
               "out, file, n = sys.argv[1:]\n"
               "for i, record in enumerate(numpy.fromfile(file, numpy.uint8).reshape(-1, 3073)[:int(n)]):\n"
               "    place = pathlib.Path(out) / str(record[0])\n"
               "    place.mkdir(parents=True, exist_ok=True)\n"
               "    pixels = record[1:].reshape(3, 32, 32).transpose(1, 2, 0)\n"
               "    Image.fromarray(pixels.copy()).save(place / f'{i:04}.png')\n")
    subprocess.run([python, "-c", program, folder, ZOO / "shapes10" / file, str(n)], check=True)


# The student's notebook: cells come as lines of JSON, and each is answered by its error. It has a network, which is a
# trained ResNet as a torch.nn.Module, and images.
NOTEBOOK = """
import json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, {scripts!r})
import numpy, torch, zoo.onnx_network
network = zoo.onnx_network.OnnxNetwork({network!r})
records = numpy.fromfile({images!r}, dtype=numpy.uint8).reshape(-1, 3073)[:50]
x = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).float() / 255
names = dict(torch=torch, network=network, x=x, y=torch.from_numpy(records[:, 0].astype(int)))
for line in sys.stdin:
    try:
        exec(json.loads(line), names)
        error = ""
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps(error), file=answers, flush=True)
"""


def student(folder, log, release, python):
    environment = folder / "environment"
    subprocess.run([python, "-m", "venv", environment], check=True)
    hour = Hour("student", folder / "student", log, [environment / "bin"])
    sites = subprocess.run([python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')"], check=True,
                           capture_output=True, text=True).stdout
    inner = next((environment / "lib").glob("python3*")) / "site-packages"
    (inner / "torch.pth").write_text(sites)
    for wheel in release.glob("*.whl"):
        shutil.copy(wheel, hour.folder)
    write_photos(python, hour.folder / "photos", "test.bin", 50)
    text = NOTEBOOK.format(scripts=str(ROOT / "scripts"), network=str(ZOO / "preact_standard.onnx"),
                           images=str(ZOO / "shapes10" / "test.bin"))
    hour.spend(STUDENT[:1])
    with subprocess.Popen([environment / "bin" / "python", "-c", text], cwd=hour.folder, env=hour.environment,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hour.notebook:
        hour.spend(STUDENT[1:])
        hour.notebook.stdin.close()
    return hour


def engineer(folder, log, release, python):
    hour = Hour("engineer", folder / "engineer", log, [folder / "engineer"])
    for archive in release.glob("*.tar.gz"):
        shutil.copy(archive, hour.folder)
    write_photos(python, hour.folder / "photos", "test.bin", 256)
    write_photos(python, hour.folder / "train", "train.bin", 400)
    for own in "my.onnx", "new.onnx":
        shutil.copy(ZOO / "preact_standard.onnx", hour.folder / own)
    config = (ROOT / "docs" / "ci" / "robustness.yaml").read_text()
    for theirs, own in [("../../models/zoo/preact_robust.onnx", "my.onnx"),  # the file asks for paths of one's own
                        ("{format: cifar10-bin, path: ../../models/zoo/shapes10/test.bin", "{format: image-folder, path: photos")]:
        config = config.replace(theirs, own)
    (hour.folder / "robustness.yaml").write_text(config)
    hour.spend(ENGINEER)
    return hour


def reader(folder, log):
    hour = Hour("reader", folder / "reader", log, [folder / "reader"])
    hour.folder.rmdir()
    subprocess.run(["git", "clone", "-q", ROOT, hour.folder], check=True)
    hour.spend(READER)
    return hour


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter with PyTorch and Pillow")
    parser.add_argument("--release", type=pathlib.Path, help="a folder of a release's files")
    parser.add_argument("--user", choices=("student", "engineer", "reader"), action="append", help="default: all")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("first-hour.log"), help="the log")
    arguments = parser.parse_args()
    users = arguments.user or ["student", "engineer", "reader"]
    passed = True
    with tempfile.TemporaryDirectory() as folder, open(arguments.out, "w") as log:
        place, release = pathlib.Path(folder), arguments.release
        if release is None and users != ["reader"]:
            clone = place / "clone"
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
            subprocess.run(["make", "release"], cwd=clone, check=True)
            release = clone / "dist"
        for user in users:
            print(f"{user}", file=log, flush=True)
            hour = {"student": lambda: student(place, log, release, arguments.python),
                    "engineer": lambda: engineer(place, log, release, arguments.python),
                    "reader": lambda: reader(place, log)}[user]()
            passed &= hour.passed
            hour.say(f"{time.monotonic() - hour.began:8.1f} s  in all{'' if hour.passed else '  FAILED'}\n")
    print(arguments.out.read_text())
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
