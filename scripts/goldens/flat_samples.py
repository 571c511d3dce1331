"""Writes harness/testdata/flat: networks of rows of features, as scikit-learn's and XGBoost's converters write them,
test rows, and what ONNX Runtime answers to them"""
import json
import pathlib

import numpy
import onnxmltools
import onnxruntime
import pyarrow
import pyarrow.parquet
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

OUT = pathlib.Path(__file__).parents[2] / "harness/testdata/flat"


def split(load, test):
    x, y = load(return_X_y=True)
    x = x.astype("float32")
    order = numpy.random.default_rng(0).permutation(len(x))
    return x[order[test:]], y[order[test:]], x[order[:test]], y[order[:test]]


def write(name, model, rows):
    """Writes a model, and the scores that ONNX Runtime gives for rows."""
    data = model.SerializeToString()
    (OUT / f"{name}.onnx").write_bytes(data)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    label, scores = session.run(None, {session.get_inputs()[0].name: rows})
    if isinstance(scores, list):  # a ZipMap's dictionaries
        scores = [list(s.values()) for s in scores]
    return {"scores": numpy.asarray(scores, "float64").round(7).tolist(), "labels": [str(v) for v in label]}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    answers = {}
    x, y, rows, labels = split(load_digits, 60)
    numpy.savez_compressed(OUT / "digits.npz", x=rows.astype("uint8"), y=labels.astype("int64"))
    mlp = make_pipeline(StandardScaler(), MLPClassifier((24,), max_iter=80, random_state=0)).fit(x, y)
    answers["mlp"] = write("mlp", to_onnx(mlp, x[:1]), rows)
    forest = RandomForestClassifier(4, max_depth=5, random_state=0).fit(x, y)
    answers["forest"] = write("forest", to_onnx(forest, x[:1], options={"zipmap": False}), rows)
    boosted = xgboost.XGBClassifier(n_estimators=6, max_depth=3, seed=0).fit(x, y)
    answers["xgboost"] = write("xgboost", onnxmltools.convert_xgboost(
        boosted, initial_types=[("x", FloatTensorType([None, 64]))]), rows)

    x, y, rows, labels = split(load_breast_cancer, 60)
    y, labels = 1 - y, 1 - labels  # 1 is malignant
    table = {f"feature {i}": rows[:, i] for i in range(rows.shape[1])} | {"target": labels}
    pyarrow.parquet.write_table(pyarrow.table(table), OUT / "cancer.parquet")
    names = numpy.array(["benign", "malignant"])
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, names[y])
    answers["linear"] = write("linear", to_onnx(linear, x[:1]), rows)
    normal = make_pipeline(Normalizer(), LogisticRegression(C=1000)).fit(x, y)
    answers["normalizer"] = write("normalizer", to_onnx(normal, x[:1]), rows)
    pair = xgboost.XGBClassifier(n_estimators=6, max_depth=3, seed=0).fit(x, y)
    answers["pair"] = write("pair", onnxmltools.convert_xgboost(
        pair, initial_types=[("x", FloatTensorType([None, 30]))]), rows)
    (OUT / "answers.json").write_text(json.dumps(answers))


main()
