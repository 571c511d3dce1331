"""selfheal_gate, in pytest runs of their own."""

import json

TEST = """
import numpy as np

RECORDS = np.fromfile({data!r}, dtype=np.uint8).reshape(-1, 3073)[:20]

def test_first(selfheal_gate):
    selfheal_gate({network!r}, "baseline.json", RECORDS[:, 1:].reshape(-1, 3, 32, 32), RECORDS[:, 0].astype(int),
                  eps=4/255, version="pgd", parameters={{"steps": 5}})
"""
AFTER = """
def test_after(selfheal_gate):
    selfheal_gate({network!r}, "baseline.json"{more})
"""


def test_gate(pytester, network):
    from .conftest import ZOO

    data = str(ZOO / "shapes10" / "test.bin")
    pytester.makepyfile(test_it=TEST.format(network=str(network), data=data))
    pytester.runpytest_subprocess().assert_outcomes(failed=1)  # no baseline yet
    pytester.runpytest_subprocess("--selfheal-update").assert_outcomes(passed=1)
    baseline = json.loads((pytester.path / "baseline.json").read_text())
    assert baseline["attacks"]["pgd"]["parameters"]["steps"] == 5
    pytester.runpytest_subprocess().assert_outcomes(passed=1)  # the same network: nothing has changed
    pytester.makepyfile(test_it=AFTER.format(network=str(network), more=""))
    pytester.runpytest_subprocess().assert_outcomes(passed=1)  # by what the baseline says alone
    weak = str(ZOO / "preact_standard.onnx")  # which is broken everywhere
    pytester.makepyfile(test_it=AFTER.format(network=weak, more=""))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAIL*"])
    (pytester.path / "baseline.npz").unlink()
    pytester.runpytest_subprocess().assert_outcomes(failed=1)  # no images


def test_inconclusive(pytester, network):
    from .conftest import ZOO

    data = str(ZOO / "shapes10" / "test.bin")
    pytester.makepyfile(test_it=TEST.format(network=str(network), data=data))
    pytester.runpytest_subprocess("--selfheal-update").assert_outcomes(passed=1)
    other = str(ZOO / "wide_robust.onnx")
    for more, outcome in (("", "failed"), (', inconclusive="skip"', "skipped"), (', inconclusive="pass"', "passed")):
        pytester.makepyfile(test_it=AFTER.format(network=other, more=more + ', gate={"max_drop": 0.01}'))
        pytester.runpytest_subprocess().assert_outcomes(**{outcome: 1})
