"""Writes the Keras networks that a test opens, and what TensorFlow makes of them.

    pip install tensorflow-cpu tf2onnx
    python3 scripts/goldens/keras_samples.py --out control/testdata

Networks take [N, 16, 16, 3] images in [0, 255], channels last, and normalise them by a layer of their own, as
keras.applications do. They are exported by Keras, which does it by tf2onnx. The images are (7·i + 3·(i // 5) + 11·n) mod 256 at place i of the
n-th, channels first, which a test makes again. keras.json has the logits, and the gradients of the cross-entropy
with respect to images in [0, 1], channels first.
"""

import argparse
import json
import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf2onnx

SIDE, CHANNELS, CLASSES, IMAGES = 16, 3, 5, 3


def plain():
    """Convolutions, batch normalisation, a residual join, pooling; logits."""
    x = image = keras.Input((SIDE, SIDE, CHANNELS), name="image")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1)(x)
    x = keras.layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization()(x)
    joined = keras.layers.ReLU()(x)
    x = keras.layers.Conv2D(8, 3, padding="same")(joined)
    x = keras.layers.ReLU()(keras.layers.Add()([x, joined]))
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Conv2D(12, 3, strides=2, padding="same")(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, keras.layers.Dense(CLASSES, name="logits")(x))


def mobile():
    """Depthwise convolutions, squeeze and excitation, swish, as EfficientNet and MobileNet have them; probabilities."""
    x = image = keras.Input((SIDE, SIDE, CHANNELS), name="image")
    # A Normalization layer's numbers are exported as inputs without values, which nothing can run.
    deviation = np.array([0.229, 0.224, 0.225])
    x = keras.layers.Rescaling((1 / 255 / deviation).tolist(), (-np.array([0.485, 0.456, 0.406]) / deviation).tolist())(x)
    x = keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    x = keras.layers.Activation("swish")(keras.layers.BatchNormalization()(x))
    wide = keras.layers.Conv2D(16, 1, use_bias=False)(x)
    wide = keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(wide)
    wide = keras.layers.Activation("swish")(keras.layers.BatchNormalization()(wide))
    scale = keras.layers.GlobalAveragePooling2D(keepdims=True)(wide)
    scale = keras.layers.Conv2D(4, 1, activation="swish")(scale)
    scale = keras.layers.Conv2D(16, 1, activation="sigmoid")(scale)
    wide = keras.layers.Multiply()([wide, scale])
    x = keras.layers.Add()([keras.layers.Conv2D(8, 1)(wide), x])
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, keras.layers.Dense(CLASSES, activation="softmax", name="probabilities")(x))


def images():
    """Images in [0, 255], channels last."""
    i = np.arange(CHANNELS * SIDE * SIDE)
    flat = np.stack([(7 * i + 3 * (i // 5) + 11 * n) % 256 for n in range(IMAGES)])
    return flat.reshape(IMAGES, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1).astype(np.float32)


def main():
    """Writes the networks and what they give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    golden = {"versions": {"keras": keras.__version__, "tensorflow": tf.__version__, "tf2onnx": tf2onnx.__version__}}
    for network in (plain, mobile):
        keras.utils.set_random_seed(7)
        model = network()
        for layer in model.layers:  # statistics that are not those of an untrained network
            if isinstance(layer, keras.layers.BatchNormalization):
                gamma, beta, mean, variance = layer.get_weights()
                rng = np.random.default_rng(len(gamma))
                layer.set_weights([gamma + rng.normal(0, 0.2, gamma.shape), beta + rng.normal(0, 0.2, beta.shape),
                                   mean + rng.normal(0, 0.2, mean.shape), variance * rng.uniform(0.5, 2, variance.shape)])
        model(images())  # Keras exports what was called
        model.export(str(out / f"keras_{network.__name__}.onnx"), format="onnx", verbose=False)
        x = tf.Variable(images() / 255)
        labels = tf.constant([n % CLASSES for n in range(IMAGES)])
        with tf.GradientTape() as tape:
            y = model(x * 255, training=False)
            if network is mobile:
                y = tf.math.log(y)
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y))
        gradient = tape.gradient(loss, x).numpy().transpose(0, 3, 1, 2)
        golden[network.__name__] = {"logits": np.round(y.numpy().astype(float), 7).tolist(),
                                    "gradients": [[float(f"{v:.6g}") for v in g.ravel()] for g in gradient]}
    (out / "keras.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
