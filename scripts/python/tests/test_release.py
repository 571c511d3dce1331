"""What make release puts together beside the programs."""

import io
import json
import sys
import tarfile
import zipfile

import pytest

from .conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from release import program, release

from selfheal._program import PROGRAM, environment

FILES = {"selfheal": b"program", "README.md": b"text"}
SECONDS = 1_700_000_000


def test_archives():
    """The same bytes each time, and the program alone can be run."""
    packed = release.tar(FILES, SECONDS)
    assert packed == release.tar(dict(reversed(FILES.items())), SECONDS)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert {e.name: e.mode for e in archive} == {"selfheal": 0o755, "README.md": 0o644}
        assert {e.mtime for e in archive} == {SECONDS}
        assert archive.extractfile("selfheal").read() == b"program"
    packed = release.zipped(FILES, SECONDS)
    assert packed == release.zipped(dict(reversed(FILES.items())), SECONDS)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read("README.md") == b"text" and archive.testzip() is None


def test_bill_of_materials():
    """Every module that is linked, under the version that go.mod asks for."""
    bill = release.bill_of_materials("1.2.3", SECONDS)
    assert bill == release.bill_of_materials("1.2.3", SECONDS)
    document = json.loads(bill)
    assert document["bomFormat"] == "CycloneDX" and document["metadata"]["component"]["version"] == "1.2.3"
    purls = {c["purl"] for c in document["components"]}
    asked = dict(line.split()[:2] for line in (ROOT / "go.mod").read_text().splitlines() if line.startswith("\t"))
    for path in ("github.com/yalue/onnxruntime_go", "gonum.org/v1/gonum", "github.com/spf13/cobra"):
        assert f"pkg:golang/{path}@{asked[path]}" in purls
    assert any(purl.startswith("pkg:golang/std@1.") for purl in purls)


def test_licences():
    texts = release.licences().decode()
    for path, version, _ in release.modules():
        assert f"\n{path} {version}: " in texts
    assert texts.count("Redistribution and use in source and binary forms") > 5


def test_start(monkeypatch):
    """A release's files attack once they are unpacked; what does not start fails, or is named where nothing could."""
    monkeypatch.setattr(release.os, "environ", environment())
    here = program.host()
    name = program.file_name(here)
    packed = release.tar({name: PROGRAM.read_bytes(), "README.md": b"text"}, SECONDS)
    assert release.start("selfheal.tar.gz", packed, here).startswith("selfheal.tar.gz: robust accuracy ")
    packed = release.zipped({f"selfheal/{name}": PROGRAM.read_bytes()}, SECONDS)
    assert release.start("selfheal.whl", packed, here).startswith("selfheal.whl: robust accuracy ")
    with pytest.raises(program.BuildError, match="does not start"):
        release.start("selfheal.tar.gz", release.tar({name: b"program"}, SECONDS), here)
    with pytest.raises(program.BuildError, match="ends with 1 and says oh"):
        release.start("selfheal.tar.gz", release.tar({name: b"#!/bin/sh\necho oh\nexit 1\n"}, SECONDS), here)
    assert "not tried" in release.start("selfheal.zip", b"", "windows/amd64")


def test_stubs(tmp_path):
    """The libraries of macOS that Go's packages link, with the functions that they take of them."""
    program.write_stubs(tmp_path)
    stubs = {p.name: p.read_text() for p in tmp_path.rglob("*.tbd")}
    assert set(stubs) == {"CoreFoundation.tbd", "Security.tbd", "libresolv.tbd"}
    assert "_SecTrustEvaluateWithError" in stubs["Security.tbd"] and "_res_9_nsearch" in stubs["libresolv.tbd"]
