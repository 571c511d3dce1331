"""A notebook in a real kernel: progress, the result's table and the page inline."""

import pytest

from .conftest import ZOO

CELLS = [
    f"""import numpy as np, selfheal
records = np.fromfile({str(ZOO / "shapes10" / "test.bin")!r}, dtype=np.uint8).reshape(-1, 3073)[:5]
result = selfheal.attack({str(ZOO / "preact_robust.onnx")!r}, records[:, 1:].reshape(-1, 3, 32, 32),
                         records[:, 0].astype(int), eps=4/255, version="quick")
result""",
    "result.report()",
    "from selfheal import _program\nraise _program.interrupted('the same call continues')",  # as Ctrl-C does
]


def test_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(
        book, timeout=120, allow_errors=True, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    first, second, third = (cell.outputs for cell in book.cells)
    progress = "".join(o["text"] for o in first if o["output_type"] == "stream")
    assert "preact_robust clean: " in progress and "100%|####################|" in progress
    (table,) = (o["data"]["text/html"] for o in first if o["output_type"] == "execute_result")
    assert "<td>aa-quick</td>" in table
    (page,) = (o["data"]["text/html"] for o in second if o["output_type"] == "execute_result")
    assert page.startswith("<iframe srcdoc=") and "&lt;!DOCTYPE html&gt;" in page
    (stopped,) = third
    assert stopped["traceback"] == ["selfheal: stopped; the same call continues"]
