#!/usr/bin/env python3
"""Writes models/onnx/attributes.txt: which attributes ONNX's standard operators have, in any version.

    python3 scripts/goldens/operator_attributes.py

The operators are those of the table in models/onnx/operators.go; the attributes are read from the onnx package's schemas.
"""

import argparse
import collections
import pathlib
import re

import onnx.defs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    table = (ROOT / "models/onnx/operators.go").read_text()
    known = set(re.findall(r'"([A-Z]\w+)":\s', table))
    found = collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.name in known:
            found[schema.name] |= set(schema.attributes)
    lines = [" ".join([name, *sorted(found[name])]) + "\n" for name in sorted(found)]
    (ROOT / "models/onnx/attributes.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
