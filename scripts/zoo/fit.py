#!/usr/bin/env python3
"""Fits an embedding by PyTorch, where a GPU is at hand: what `selfheal fit` does, by the same objective.

    python3 scripts/zoo/fit.py --architecture fcn --data cifar10 --folder cifar-10-batches-bin --models rn-18.onnx \\
        --weight 1 --reconstruction mean --epochs 60 --device cuda --precision bf16 --out runs/fcn

The embedding E of the input, or with --at last of the features that enter a network's last layer, minimises the paper's
Eq. 4, CE(rest of the network applied to E(x), label) + weight * ||E(x) - x||^2, through frozen ONNX classifiers. For
--at last, --before names the embedding of the input that stands in front of them. --objective adversarial shows E the
worst images of a ball, which PGD looks for through E and the network. What differs from `selfheal fit`: the
draws of weights, order and augmentation, normalisations see the whole batch, and an epoch leaves out what makes no batch.

--learns says what else may learn by the same steps, to compare with: `head` puts one linear layer in the frozen network's
place, which learns with E; `network` is the network itself, from its own weights and without E. Both are written as a
classifier; `network` takes images that --mean and --std have normalised, as it did.

The folder --out gets checkpoint.pt every ten minutes and after every epoch (--resume goes on from there), log.jsonl with one line an epoch and
at the end embedding.onnx; with --keep also embedding-EPOCH.onnx after these epochs. With --test N the line of each of
them has what the embedding does to N test images in front of the first network, at linf 8/255: accuracy on clean images
and on images that PGD-40 made on the network alone, the mean of ||E(x) - x||^2, and the mean share of a perturbation that
passes, ||E(x + d) - E(x)|| / ||d|| in l2.
"""

import argparse
import contextlib
import copy
import math
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

try:
    import onnx
    import torch
    from torch import nn
    from torch.nn import functional

    from paper.architectures import embeddings
    from zoo import attacks, datasets, export, exporters, onnx_network, train
    from zoo.exporters import ExportError
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"fit.py: error: {missing}; see scripts/requirements.txt")

EMBEDDING = "embedding.onnx"
IMAGES = {"fcn": embeddings.FCN, "unet": embeddings.UNet, "segnet": embeddings.SegNet}  # architectures of the input
OPSET = 13
PGD_STEPS, PGD_STEP = 40, 2.0 / 255.0  # of the judge's attack
PASS = 250  # images of one of its passes
HELD_STEPS = 10  # of the attacks on images held back, each of a quarter of epsilon
SETTLED = 0.3  # share of the steps after which the weight of the reconstruction stands
# Arguments of --objective adversarial, with their defaults.
ADVERSARIAL = {"norm": "linf", "epsilon": None, "steps": 1, "step_size": None, "warmup": 0.0, "ramp": 0.0, "weight_end": None}
# A fit goes on with the arguments that it began with.
FIXED = ("held_out", "architecture", "width", "stages", "refine", "coarse", "sizes", "data", "models", "mean", "std", "at", "before", "epochs", "batch", "weight",
         "reconstruction", "weight_start", "objective", "norm", "epsilon", "steps", "step_size", "warmup", "ramp", "weight_end",
         "learns", "lr_warmup", "clip", "average", "optimizer", "rate", "weight_decay", "schedule", "drops", "draw", "flip", "crop", "limit_train", "precision", "seed")


def parse(argv):
    parser = export.Parser(prog="fit.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=(*IMAGES, "mlp-ae"), required=True)
    parser.add_argument("--width", type=export.positive, help="channels of the first layer (default: the architecture's)")
    parser.add_argument("--stages", type=export.positive, help="unet: halvings (default 3)")
    parser.add_argument("--refine", type=export.positive, help="unet: convolutions of each stage of the decoder (default 0)")
    parser.add_argument("--coarse", type=export.positive, help="unet: side of the squares by whose means it begins (default: none)")
    parser.add_argument("--sizes", type=export.positive, nargs="+", default=[512, 384, 256],
                        help="mlp-ae: of the state and its layers down to the code (default 512 384 256)")
    parser.add_argument("--data", choices=sorted(datasets.DATASETS), required=True, help="the image set's layout")
    parser.add_argument("--folder", help="where it lies (shapes10: default the bundled images)")
    parser.add_argument("--models", nargs="+", required=True, metavar="FILE", help="ONNX classifiers, of which one is drawn")
    parser.add_argument("--mean", type=float, nargs="+", help="of the networks' images, of all channels or of each")
    parser.add_argument("--std", type=float, nargs="+", help="and their standard deviation")
    parser.add_argument("--draw", choices=("epoch", "step"), default="epoch", help="how often (default %(default)s)")
    parser.add_argument("--at", choices=("input", "last"), default="input", help="(default %(default)s)")
    parser.add_argument("--before", metavar="FILE", help="with --at last: the embedding of the input, as ONNX")
    parser.add_argument("--out", required=True, help="folder for checkpoint, log and embedding")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out, where there is one")
    parser.add_argument("--keep", type=export.positive, nargs="*", default=[], metavar="EPOCH",
                        help="write the embedding after these epochs too")
    parser.add_argument("--test", type=export.positive, metavar="N", help="judge what is kept on the first N test images")
    parser.add_argument("--epochs", type=export.positive, default=60, help="(default %(default)s)")
    parser.add_argument("--batch", type=export.positive, default=256, help="images a step (default %(default)s)")
    parser.add_argument("--weight", type=float, default=1.0, help="of the reconstruction (default %(default)s)")
    parser.add_argument("--reconstruction", choices=("sum", "mean"), default="mean",
                        help="whether it is the sum over the state's values or their mean (default %(default)s)")
    parser.add_argument("--weight-start", type=float, help="weight at the first step; it falls to --weight in 30 %% of the steps")
    parser.add_argument("--objective", choices=("clean", "adversarial"), default="clean", help="(default %(default)s)")
    parser.add_argument("--norm", choices=sorted(attacks.EPSILONS), help="adversarial: (default linf)")
    parser.add_argument("--epsilon", type=float, help="adversarial: radius in pixels of [0, 1] (default 8/255, l2: 0.5, l1: 12)")
    parser.add_argument("--steps", type=export.positive, help="adversarial: of PGD (default 1)")
    parser.add_argument("--step-size", type=float, help="adversarial: of one (default epsilon / 4, for a single one 1.25 epsilon)")
    parser.add_argument("--warmup", type=float, metavar="EPOCHS", help="adversarial: before epsilon grows (default 0)")
    parser.add_argument("--ramp", type=float, metavar="EPOCHS", help="adversarial: in which it grows (default 0)")
    parser.add_argument("--weight-end", type=float, help="adversarial: the weight when epsilon has grown (default: --weight)")
    parser.add_argument("--learns", choices=("front", "head", "network"), default="front", help="(default %(default)s)")
    parser.add_argument("--lr-warmup", type=float, default=0.0, metavar="SHARE", help="of the steps, over which the rate climbs (default %(default)s)")
    parser.add_argument("--clip", type=float, help="largest l2 norm of a step's gradient (default: any)")
    parser.add_argument("--average", type=float, default=0.0, metavar="DECAY", help="judge and write an average of the weights (default: the last)")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd", help="(default %(default)s, momentum 0.9)")
    parser.add_argument("--rate", type=float, default=0.01, help="first learning rate (default %(default)s)")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="(default %(default)s)")
    parser.add_argument("--schedule", choices=("cosine", "step", "constant"), default="step", help="(default %(default)s)")
    parser.add_argument("--drops", type=float, nargs="*", default=[0.75, 0.95],
                        help="step: to a tenth after each of these shares of the steps (default 0.75 0.95)")
    parser.add_argument("--flip", action="store_true", help="mirror images at random")
    parser.add_argument("--crop", type=int, default=0, metavar="PIXELS", help="shift them at random (default %(default)s)")
    parser.add_argument("--limit-train", type=export.positive, metavar="N", help="use the first N training images")
    parser.add_argument("--held-out", type=export.positive, metavar="N",
                        help="keep the last N training images back; embedding.onnx says how it is judged by them, as fit's do")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="of the passes (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default %(default)s)")
    arguments = parser.parse_args(argv)
    arguments.given = [key for key in ADVERSARIAL if getattr(arguments, key) is not None]
    for key, value in ADVERSARIAL.items():
        if getattr(arguments, key) is None:
            setattr(arguments, key, value)
    return arguments


def new(arguments):
    """The embedding with weights drawn as `selfheal fit` draws them."""
    if arguments.architecture == "mlp-ae":
        return embeddings.AutoEncoder(sizes=tuple(arguments.sizes))
    given = {key: getattr(arguments, key) for key in ("width", "stages", "refine", "coarse")}
    embedding = IMAGES[arguments.architecture](**{key: value for key, value in given.items() if value})
    if arguments.architecture == "fcn":  # without normalisation, PyTorch's own draws fade on the way down
        for layer in embedding.encoder.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(layer.bias)
    return embedding


@contextlib.contextmanager
def held(module):
    """Normalisations go by a batch's statistics, and their running ones stay as they are."""
    learning = [part for part in module.modules() if getattr(part, "track_running_stats", False)]
    for part in learning:
        part.track_running_stats = False
    try:
        yield
    finally:
        for part in learning:
            part.track_running_stats = True


class Headed(nn.Module):
    """An embedding and one linear layer on what comes out of it."""

    def __init__(self, embedding, values, classes):
        super().__init__()
        self.embedding, self.head = embedding, nn.Linear(values, classes)

    def forward(self, x):
        return self.head(self.embedding(x).flatten(1))


class Fit(train.Kept):
    """One fit: embedding, optimiser and random state, which checkpoints hold whole."""

    fixed, measured = FIXED, ("cross_entropy", "reconstruction", "accuracy")
    under_way = (*train.Kept.under_way, "drawn")

    def __init__(self, arguments):
        super().__init__(arguments)
        self.data = datasets.load(arguments.data, arguments.folder, train=True).head(arguments.limit_train).to(self.device)
        if arguments.held_out:
            if arguments.held_out >= len(self.data):
                raise train.TrainingError(f"--held-out {arguments.held_out} leaves none of {len(self.data)} images")
            self.data, self.held = self.data.split(len(self.data) - arguments.held_out)
        self.drawn = 0  # of the networks, the one that is fitted through
        self.networks = [self.frozen(path) for path in arguments.models]
        self.learner = self.fresh().to(self.device)
        self.epsilon = attacks.EPSILONS[arguments.norm] if arguments.epsilon is None else arguments.epsilon
        self.step_size = arguments.step_size or self.epsilon * (1.25 if arguments.steps == 1 else 0.25)
        self.average = copy.deepcopy(self.learner) if arguments.average else None
        self.made = 0  # steps
        before = onnx_network.OnnxNetwork(arguments.before) if arguments.before else nn.Identity()
        self.before = before.to(self.device)
        settings = {"lr": arguments.rate, "weight_decay": arguments.weight_decay}
        self.optimiser = (torch.optim.Adam(self.learner.parameters(), **settings) if arguments.optimizer == "adam"
                          else torch.optim.SGD(self.learner.parameters(), momentum=0.9, **settings))

    def fresh(self):
        """What learns, as it begins."""
        if self.arguments.learns == "network":
            return copy.deepcopy(self.networks[0]).thaw()
        embedding = new(self.arguments)
        if self.arguments.learns == "head":
            return Headed(embedding, self.data.images[0].numel(), self.data.classes)
        return embedding

    @property
    def judged(self):
        return self.average or self.learner

    def frozen(self, path):
        return onnx_network.OnnxNetwork(path, self.arguments.mean, self.arguments.std).to(self.device)

    def factor(self, progress):
        steps = self.arguments.epochs * max(1, len(self.data) // self.arguments.batch)
        warm, step = math.ceil(self.arguments.lr_warmup * steps), round(progress * steps)
        if step < warm:
            return (step + 1) / warm
        progress = (step - warm) / (steps - warm)
        if self.arguments.schedule == "step":
            return 0.1 ** sum(progress >= at for at in self.arguments.drops)
        return super().factor(progress)

    def grown(self):
        """Share of epsilon in [0, 1] at this step."""
        if self.arguments.objective == "clean":
            return 0.0
        past = self.made / max(1, len(self.data) // self.arguments.batch) - self.arguments.warmup
        if past < 0.0:
            return 0.0
        return past / self.arguments.ramp if past < self.arguments.ramp else 1.0

    def weight(self):
        """The reconstruction's, at this step."""
        weight, steps = self.arguments.weight, self.arguments.epochs * max(1, len(self.data) // self.arguments.batch)
        past = self.made / (SETTLED * steps)
        if self.arguments.weight_start and past < 1.0:
            weight = self.arguments.weight_start * (weight / self.arguments.weight_start) ** past
        if self.arguments.weight_end:
            weight *= (self.arguments.weight_end / self.arguments.weight) ** self.grown()
        return weight

    def images(self, chosen):
        images = self.data.images[chosen]
        if self.arguments.flip or self.arguments.crop:
            images = datasets.augment(images, self.arguments.crop, images.shape[-1], self.generator, self.arguments.flip)
        return (images.float() / 255.0).contiguous(memory_format=torch.channels_last)

    def losses(self, chosen):
        if self.step == 0 or self.arguments.draw == "step":
            self.drawn = int(torch.randint(len(self.networks), (1,), generator=self.generator))
        network, x, labels = self.networks[self.drawn], self.images(chosen), self.data.labels[chosen]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.precision == "bf16"):
            if self.arguments.at == "last":
                with torch.no_grad():
                    x = network.features(self.before(x).float()).float()
            e, logits = self.through(network, self.worst(network, x, labels))
        squares = (e - x).flatten(1).pow(2)
        counted = squares.sum(dim=1) if self.arguments.reconstruction == "sum" else squares.mean(dim=1)
        cross_entropy = functional.cross_entropy(logits, labels)
        return (cross_entropy + self.weight() * counted.mean(), cross_entropy.detach(),
                squares.sum(dim=1).mean().detach(), (logits.argmax(dim=1) == labels).float().mean())

    def through(self, network, x):
        """What the embedding gives, and the logits. Without an embedding that is x."""
        if self.arguments.learns == "network":
            return x, self.learner(x).float()
        if self.arguments.learns == "head":
            e = self.learner.embedding(x).float()
            return e, self.learner.head(e.flatten(1)).float()
        e = self.learner(x).float()
        return e, (network.head(e) if self.arguments.at == "last" else network(e)).float()

    def worst(self, network, x, labels):
        """The images that PGD ends at, from a random start, through what learns as it stands."""
        share = self.grown()
        if share == 0.0:
            return x
        with held(self.learner):
            return attacks.pgd(lambda z: self.through(network, z)[1], x, labels, self.arguments.norm, share * self.epsilon,
                               self.arguments.steps, share * self.step_size, attacks.cross_entropy_loss, self.generator)

    def before_step(self):
        if self.arguments.clip:
            nn.utils.clip_grad_norm_(self.learner.parameters(), self.arguments.clip)

    def stepped(self):
        self.made += 1
        if self.average:
            keep = min(self.arguments.average, self.made / (self.made + 10.0))
            for mean, last in zip(self.average.state_dict().values(), self.learner.state_dict().values()):
                mean.lerp_(last, 1.0 - keep) if mean.is_floating_point() else mean.copy_(last)

    def state(self):
        average = {"average": self.average.state_dict()} if self.average else {}
        return {"embedding": self.learner.state_dict(), "made": self.made, **average}

    def restore(self, state):
        self.learner.load_state_dict(state["embedding"])
        self.made = state["made"]
        if self.average:
            self.average.load_state_dict(state["average"])

    def export(self, name):
        """The embedding as it stands, as an ONNX file in the folder."""
        twin = copy.deepcopy(self.judged).cpu()
        if self.arguments.learns == "network":
            self.write(name, lambda path: twin.save(self.arguments.models[0], path))
            return
        size = self.arguments.sizes[:1] if self.arguments.at == "last" else self.data.images.shape[1:]
        names = ("state", "embedding") if self.arguments.learns == "front" else ("input", "logits")
        data = exporters.export(twin.eval(), torch.zeros(2, *size), "torchscript", OPSET, *names)
        if name == EMBEDDING and self.arguments.held_out:
            model = onnx.load_from_string(data)
            onnx.helper.set_model_props(model, self.judgement())
            data = model.SerializeToString()
        self.write(name, lambda path: path.write_bytes(data))

    def judgement(self):
        """Metadata of the embedding: shares of the images held back that are right, means over the networks."""
        embedding, counts = self.judged.eval(), torch.zeros(5)
        for network in self.networks:
            def both(x, network=network):
                return network(embedding(x))

            for x, labels in zip(self.held.images.split(PASS), self.held.labels.split(PASS)):
                x = x.float() / 255.0

                def worst(asked, steps, size, x=x, labels=labels):
                    if steps == 0:
                        return x
                    return attacks.pgd(asked, x, labels, self.arguments.norm, self.epsilon, steps, size,
                                       attacks.cross_entropy_loss, self.generator)

                searched = self.arguments.steps if self.arguments.objective == "adversarial" else 0
                seen = [(network, x), (both, x), (both, worst(network, HELD_STEPS, self.epsilon / 4)),
                        (both, worst(both, HELD_STEPS, self.epsilon / 4)), (both, worst(both, searched, self.step_size))]
                with torch.no_grad():
                    counts += torch.tensor([(asked(z).argmax(dim=1) == labels).sum().item() for asked, z in seen])
        shares = counts / (len(self.held) * len(self.networks))
        names = ("alone", "accuracy", "oblivious", "through", "trained")
        return {"held_out": str(len(self.held)), **{f"held_out_{n}": f"{s:.6g}" for n, s in zip(names, shares.tolist())}}


class Judge:
    """Test images, clean and attacked, in front of one network."""

    def __init__(self, network, data, device):
        self.network = network
        self.clean, self.labels = data.images.to(device).float() / 255.0, data.labels.to(device)
        generator = torch.Generator().manual_seed(0)
        self.attacked = torch.cat([
            attacks.pgd(network, x, y, "linf", attacks.EPSILONS["linf"], PGD_STEPS, PGD_STEP, attacks.cross_entropy_loss,
                        generator) for x, y in zip(self.clean.split(PASS), self.labels.split(PASS))])

    @torch.no_grad()
    def says(self, embedding):
        """Of the embedding in evaluation mode, in float32."""
        clean, attacked = (torch.cat([embedding(x) for x in images.split(PASS)]) for images in (self.clean, self.attacked))

        def right(images):
            answers = torch.cat([self.network(x).argmax(dim=1) for x in images.split(PASS)])
            return (answers == self.labels).float().mean().item()

        def lengths(difference):
            return difference.flatten(1).norm(dim=1)

        return {"clean": right(clean), "attacked": right(attacked), "moved": lengths(clean - self.clean).pow(2).mean().item(),
                "passed": (lengths(attacked - clean) / lengths(self.attacked - self.clean)).mean().item()}


def fit(arguments):
    """Fit to the last epoch and export."""
    if (arguments.at == "last") != (arguments.architecture == "mlp-ae"):
        raise train.TrainingError("--at last takes mlp-ae, and --at input another architecture")
    if arguments.before and arguments.at == "input":
        raise train.TrainingError("--before is for --at last")
    if arguments.held_out and (arguments.at == "last" or arguments.learns != "front"):
        raise train.TrainingError("--held-out is for --at input, and for --learns front")
    if (arguments.stages or arguments.refine or arguments.coarse) and arguments.architecture != "unet":
        raise train.TrainingError("--stages, --refine and --coarse are for --architecture unet")
    if arguments.test and (arguments.at == "last" or arguments.learns != "front"):
        raise train.TrainingError("--test is for --at input, and for --learns front")
    if arguments.at == "last" and (arguments.objective != "clean" or arguments.learns != "front"):
        raise train.TrainingError("--objective adversarial and --learns are for --at input")
    if arguments.objective == "clean" and arguments.given:
        names = ", ".join("--" + key.replace("_", "-") for key in arguments.given)
        raise train.TrainingError(f"{names}: for --objective adversarial")
    if arguments.learns != "front" and len(arguments.models) > 1:
        raise train.TrainingError(f"--learns {arguments.learns} takes one of --models")
    if arguments.learns == "network" and (arguments.weight or arguments.weight_start or arguments.weight_end):
        raise train.TrainingError("--learns network has no reconstruction: it takes --weight 0")
    if (arguments.weight_start or arguments.weight_end) and arguments.weight <= 0.0:
        raise train.TrainingError("--weight-start and --weight-end need a --weight above 0")
    run = Fit(arguments)
    run.begin()
    judge = None
    if arguments.test:
        test = datasets.load(arguments.data, arguments.folder, train=False).head(arguments.test)
        judge = Judge(run.networks[0], test, run.device)
    while run.epoch < arguments.epochs:
        entry = {**run.run_epoch(), "epoch": run.epoch, "seconds": round(run.seconds, 3)}
        if judge and run.epoch in (*arguments.keep, arguments.epochs):
            entry["test"] = judge.says(run.judged.eval())
        if run.epoch in arguments.keep:
            run.export(f"embedding-{run.epoch}.onnx")
        run.log(**entry)
        run.save()
    run.export(EMBEDDING)
    print(f"{run.folder / EMBEDDING}: {arguments.architecture} through {len(arguments.models)} networks")


def main(argv=None):
    arguments = parse(argv)
    try:
        fit(arguments)
    except (train.TrainingError, ExportError, onnx_network.Unsupported, datasets.DatasetError, OSError) as problem:
        print(f"fit.py: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
