#!/usr/bin/env python3
"""Exports networks to ONNX.

    python3 scripts/zoo/export.py --list
    python3 scripts/zoo/export.py --architecture wrn-28-8 --checkpoint wrn.pt --out wrn-28-8.onnx
    python3 scripts/zoo/export.py --architecture efficientnet-b0 --random --seed 1 --exporter dynamo --opset 18 --out b0.onnx
    python3 scripts/zoo/export.py --architecture segnet --skeleton --out segnet.onnx
    python3 scripts/zoo/export.py --skeletons models/zoo/skeletons
    python3 scripts/zoo/export.py --skeletons models/zoo/skeletons --exporter dynamo

The network is written in evaluation mode with float32 weights; classifiers have the input "input" [N, 3, H, W]
and the output "logits" [N, classes], embeddings "state" and "embedding" of equal shapes. No network
normalises its input. --random draws weights and running statistics of BatchNormalization from --seed;
--skeleton writes the graph without weights (and draws them first: PyTorch 1.13 merges equal tensors): an ordinary ONNX
file in which every float32 initializer of more than SMALL elements keeps its name, type and dims but holds no data, and
whose metadata_props say `selfheal.skeleton` = `1`; selfheal draws weights for it from a seed. --skeletons writes those of
all architectures, by the dynamo exporter of four different kinds, as NAME-dynamo.onnx.
"""

import argparse
import math
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

try:
    import torch
    import onnx

    from paper.architectures import ARCHITECTURES, random_weights
    from zoo import exporters
    from zoo.exporters import ExportError
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"export.py: error: {missing}; see scripts/requirements.txt")

OPSET = 13
DYNAMO = ("rn-18", "wrn-28-8", "efficientnet-b0", "segnet")  # skeletons that its exporter writes too
SMALL = 16  # initializers of up to this many elements keep their data in a skeleton: shapes, scalars, epsilons
SKELETON_KEY = "selfheal.skeleton"
EXTERNAL_THRESHOLD = 1024  # bytes from which on a tensor goes to the external file


def export_network(network, shape, path, input_name, output_name):
    """Write one network with a symbolic batch; `shape` is that of one input without the batch."""
    data = exporters.export(network, torch.zeros(2, *shape), "torchscript", OPSET, input_name, output_name)
    pathlib.Path(path).write_bytes(data)


def export_classifier(network, path):
    export_network(network, (3, 32, 32), path, "input", "logits")


def export_embedding(network, shape, path):
    export_network(network, shape, path, "state", "embedding")


def anonymous(data):
    """The model in `data` without doc strings and metadata: the exporters write stack traces with paths there."""
    model = onnx.load_model_from_string(data)
    scrub(model)
    return model


def scrub(message):
    """Clear doc_string and metadata_props in `message` and everything inside it."""
    for field, value in message.ListFields():
        if field.name in ("doc_string", "metadata_props"):
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for part in [value] if hasattr(value, "ListFields") else value:
                scrub(part)


def make_skeleton(model):
    """Take the weights out of `model`, in place."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and math.prod(tensor.dims) > SMALL:
            for field in ("raw_data", "float_data"):
                tensor.ClearField(field)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and math.prod(attribute.t.dims) > SMALL:
                raise ValueError(f"node {node.name}: a constant of {math.prod(attribute.t.dims)} elements "
                                 "inside a node would leave weights in the skeleton")
    entry = model.metadata_props.add()
    entry.key, entry.value = SKELETON_KEY, "1"


def save(model, path, external_data=False):
    """Write `model` to `path`; with `external_data` its weights to `path` + ".data" beside it."""
    path = pathlib.Path(path)
    if not external_data:
        path.write_bytes(model.SerializeToString())
        return
    location = path.name + ".data"
    path.with_name(location).unlink(missing_ok=True)  # onnx would append to an older file
    onnx.save_model(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=location,
                    size_threshold=EXTERNAL_THRESHOLD)


def load_checkpoint(network, path):
    """Load a state dict, bare or under "model" or "state_dict", as train.py and others save it."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as problem:
        raise ExportError(f"checkpoint {path}: {problem.strerror or problem}") from problem
    except Exception as problem:  # unpickling raises many kinds; their texts advise to trust the file
        raise ExportError(f"checkpoint {path} cannot be read as plain tensors by PyTorch {torch.__version__}; "
                          "write the state dict alone: torch.save(network.state_dict(), FILE)") from problem
    for key in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict):
        raise ExportError(f"checkpoint {path} holds no state dict")
    state = {name.removeprefix("module."): value for name, value in state.items()}  # of DataParallel
    own = network.state_dict()
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    wrong = sorted(name for name in own.keys() & state.keys() if own[name].shape != getattr(state[name], "shape", None))
    for names, what in ((missing, "lacks"), (unknown, "has besides"), (wrong, "has other shapes of")):
        if names:
            rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ExportError(f"checkpoint {path} is of another network: it {what} {', '.join(names[:3])}{rest}")
    network.load_state_dict(state)
    return network.eval()


class Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def opset(text):
    if not text.isdigit() or int(text) not in exporters.OPSETS:
        raise argparse.ArgumentTypeError(f"{text} is not an opset from {exporters.OPSETS[0]} to {exporters.OPSETS[-1]}")
    return int(text)


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)


def batch(text):
    return text if text == "symbolic" else positive(text)


OPTIONS = {"classes": "number of classes", "width": "channels of the first stage", "features": "size of the state",
           "code": "size of the code"}


def add_network_arguments(parser):
    """--architecture and its options, shared with train.py."""
    parser.add_argument("--architecture", metavar="NAME", help="one of --list")
    for name, text in OPTIONS.items():
        parser.add_argument(f"--{name}", type=positive, help=f"{text} (default: the paper's, see --list)")


def chosen_network(arguments):
    """The Architecture asked for and the options given; ExportError where they do not go together."""
    if arguments.architecture is None:
        raise ExportError("--architecture is missing; --list prints them")
    if arguments.architecture not in ARCHITECTURES:
        raise ExportError(f"no architecture {arguments.architecture}; there are {', '.join(ARCHITECTURES)}")
    architecture = ARCHITECTURES[arguments.architecture]
    options = {name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None}
    for name in options:
        if name not in architecture.options:
            raise ExportError(f"{arguments.architecture} has no --{name}, only "
                              + ", ".join("--" + option for option in architecture.options))
    return architecture, options


def print_list():
    for name, architecture in ARCHITECTURES.items():
        options = "  ".join(f"--{key} {value}" for key, value in architecture.options.items())
        size = f"  --image-size {architecture.image_size}" if architecture.image_size else ""
        print(f"{name:22} {architecture.description:44} {options}{size}")
    print(f"\nexporters of this PyTorch: {', '.join(exporters.available())}")


def parse(argv):
    parser = Parser(prog="export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_network_arguments(parser)
    parser.add_argument("--image-size", type=positive, metavar="N", help="side of the images (default: the paper's)")
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--checkpoint", metavar="FILE", help="trained weights, a state dict saved by torch.save")
    weights.add_argument("--random", action="store_true", help="random weights with statistics of order one")
    parser.add_argument("--seed", type=int, default=0, help="seed of --random and --skeleton (default %(default)s)")
    parser.add_argument("--exporter", choices=("torchscript", "dynamo"), default="torchscript", help="(default %(default)s)")
    parser.add_argument("--opset", type=opset, help="11 to 20 (default 13, for dynamo 18)")
    parser.add_argument("--batch", type=batch, default="symbolic", help="a number or symbolic (default %(default)s)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--skeleton", action="store_true", help="write the graph without weights")
    form.add_argument("--skeletons", metavar="FOLDER", help="write those of all architectures there")
    form.add_argument("--external-data", action="store_true", help="write the weights to OUT.data beside OUT")
    parser.add_argument("--out", metavar="FILE", help="ONNX file to write")
    parser.add_argument("--list", action="store_true", help="print the architectures with their options and leave")
    return parser.parse_args(argv)


def build(arguments):
    """The network with the weights asked for, and the shape of one input."""
    architecture, options = chosen_network(arguments)
    if arguments.image_size and architecture.image_size is None:
        raise ExportError(f"{arguments.architecture} has no --image-size: its state is a vector of --features numbers")
    shape = architecture.input_shape(arguments.image_size, **options)
    network = architecture.build(**options)
    if arguments.checkpoint:
        if arguments.skeleton:
            raise ExportError("--skeleton keeps no weights: leave --checkpoint out")
        return architecture, load_checkpoint(network, arguments.checkpoint), shape
    if not (arguments.random or arguments.skeleton):
        raise ExportError("say where the weights come from: --checkpoint FILE or --random")
    return architecture, with_size_checked(lambda: random_weights(network, shape, arguments.seed), shape), shape


def with_size_checked(run, shape):
    """run(), with a failure of the network on inputs of `shape` as an ExportError."""
    try:
        return run()
    except (RuntimeError, ValueError) as problem:
        raise ExportError(f"the network does not take inputs of shape {shape}: {exporters.first_line(problem)}") from problem


def write(arguments):
    chosen_network(arguments)  # the cheapest questions first
    if not arguments.out:
        raise ExportError("--out is missing")
    out = pathlib.Path(arguments.out)
    if not out.parent.is_dir():
        raise ExportError(f"the folder {out.parent} does not exist")
    architecture, network, shape = build(arguments)
    symbolic = arguments.batch == "symbolic"
    example = torch.rand(2 if symbolic else arguments.batch, *shape, generator=torch.Generator().manual_seed(arguments.seed))
    version = arguments.opset or (exporters.DYNAMO_OPSET if arguments.exporter == "dynamo" else OPSET)
    data = exporters.export(network, example, arguments.exporter, version, architecture.input_name,
                            architecture.output_name, symbolic)
    model = anonymous(data)
    if arguments.skeleton:
        make_skeleton(model)
    save(model, out, arguments.external_data)
    print(f"{out}: {arguments.architecture}, opset {version}, {len(model.graph.node)} nodes, {out.stat().st_size} bytes")


def write_skeletons(arguments):
    folder = pathlib.Path(arguments.skeletons)
    folder.mkdir(parents=True, exist_ok=True)
    names, suffix = (DYNAMO, "-dynamo") if arguments.exporter == "dynamo" else (ARCHITECTURES, "")
    for name in names:
        write(parse(["--architecture", name, "--skeleton", "--exporter", arguments.exporter,
                     "--out", str(folder / f"{name}{suffix}.onnx")]))


def main(argv=None):
    arguments = parse(argv)
    try:
        if arguments.list:
            print_list()
        elif arguments.skeletons:
            write_skeletons(arguments)
        else:
            write(arguments)
    except (ExportError, OSError, ImportError) as problem:
        print(f"export.py: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
