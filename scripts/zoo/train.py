#!/usr/bin/env python3
"""Trains a classifier by momentum SGD, by TRADES or by fast adversarial training, and exports it.

    python3 scripts/zoo/train.py --architecture rn-18 --data cifar10 --folder cifar-10-batches-bin --out runs/rn-18
    python3 scripts/zoo/train.py --architecture rn-18 --data cifar10 --folder cifar-10-batches-bin --out runs/rn-18-fast \
        --loss fast --epochs 15 --schedule cyclic --rate 0.2 --precision bf16
    python3 scripts/zoo/train.py --architecture wrn-28-10 --data cifar100 --folder cifar-100-binary --loss trades --out runs/wrn
    python3 scripts/zoo/train.py --architecture efficientnet-b0 --data tiny-imagenet --folder tiny-imagenet-200 --out runs/b0
    python3 scripts/zoo/train.py --architecture rn-18 --width 8 --data shapes10 --epochs 20 --out runs/shapes

The folder --out gets checkpoint.pt every ten minutes and after every epoch (--resume goes on from there, with the same
result as without the interruption), log.jsonl with one line an epoch, and at the end model.onnx. Images lie in [0, 1];
no network normalises its input. TRADES is that of Zhang et al. 2019, fast training that of Wong et al. 2020.
"""

import argparse
import json
import math
import pathlib
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

try:
    import torch
    from torch.nn import functional
    from torch.optim import swa_utils

    from zoo import attacks, datasets, export, exporters
    from zoo.exporters import ExportError
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"train.py: error: {missing}; see scripts/requirements.txt")

EPSILON = {"linf": 8.0 / 255.0, "l2": 0.5}
CHECKPOINT, LOG, MODEL = "checkpoint.pt", "log.jsonl", "model.onnx"
EVALUATION_BATCH = 256
SAVE_EVERY = 600  # seconds between checkpoints within an epoch
CROP_PADDING = 8  # pixels of padding for random crops: the side over this (4 at 32x32, 8 at 64x64)


class TrainingError(Exception):
    """Arguments or files with which there is no training; the message is one line."""


def parse(argv):
    parser = export.Parser(prog="train.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    export.add_network_arguments(parser)
    parser.add_argument("--data", choices=sorted(datasets.DATASETS), required=True, help="the image set's layout")
    parser.add_argument("--folder", help="where it lies (shapes10: default the bundled images)")
    parser.add_argument("--out", required=True, help="folder for checkpoint, log and model")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out, where there is one")
    parser.add_argument("--start", metavar="FILE", help="begin with the weights of another training's checkpoint.pt")
    parser.add_argument("--epochs", type=export.positive, default=100, help="(default %(default)s)")
    parser.add_argument("--batch", type=export.positive, default=128, help="images a step (default %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="first learning rate (default %(default)s)")
    parser.add_argument("--schedule", choices=sorted(SCHEDULES), default="step",
                        help="step: a tenth after 3/4 and 9/10 of the epochs, cosine: down to 0, cyclic: up to --rate at "
                             "2/5 and down to 0 (default %(default)s)")
    parser.add_argument("--momentum", type=float, default=0.9, help="(default %(default)s)")
    parser.add_argument("--weight-decay", type=float, default=5e-4, help="(default %(default)s)")
    parser.add_argument("--average", type=float, default=0.0, metavar="DECAY",
                        help="judge and export an exponential average of the weights, such as 0.999; 0: the last ones "
                             "(default %(default)s)")
    parser.add_argument("--no-augment", action="store_true", help="no random crops and flips")
    parser.add_argument("--crop", type=export.positive, metavar="SIDE",
                        help="train on random windows of this side, judge on whole images: an epoch takes (SIDE / side)² of "
                             "the time; a last epoch or two on whole images, by --start, mends the difference of scale")
    parser.add_argument("--loss", choices=("standard", "trades", "fast"), default="standard", help="(default %(default)s)")
    parser.add_argument("--norm", choices=sorted(EPSILON), default="linf", help="of the perturbations (default %(default)s)")
    parser.add_argument("--epsilon", type=float, help="their radius in pixels of [0, 1] (default 8/255, l2: 0.5)")
    parser.add_argument("--attack-steps", type=export.positive, default=10,
                        help="steps of TRADES' inner attack (default %(default)s); fast has one")
    parser.add_argument("--step-size", type=float, help="size of one (default epsilon / 4, fast: 5/4 epsilon)")
    parser.add_argument("--beta", type=float, default=6.0, help="weight of TRADES' KL term (default %(default)s)")
    parser.add_argument("--evaluation-steps", type=int, default=20,
                        help="steps of the PGD that judges; 0: none (default %(default)s)")
    parser.add_argument("--limit-train", type=export.positive, metavar="N", help="use the first N training images")
    parser.add_argument("--limit-test", type=export.positive, metavar="N", help="use the first N test images")
    parser.add_argument("--seed", type=int, default=0, help="(default %(default)s)")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32",
                        help="of the passes: bf16 is about twice as fast on a processor with AMX (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default %(default)s)")
    parser.add_argument("--threads", type=export.positive, help="PyTorch's threads (default: its own choice)")
    parser.add_argument("--opset", type=export.opset, default=export.OPSET, help="of model.onnx (default %(default)s)")
    return parser.parse_args(argv)


def step_schedule(progress):
    return 0.1 ** sum(progress >= milestone for milestone in (0.75, 0.9))


def cosine_schedule(progress):
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def cyclic_schedule(progress):
    return min(progress / 0.4, (1.0 - progress) / 0.6)


# Share of the rate after `progress` in [0, 1) of all steps.
SCHEDULES = {"step": step_schedule, "cosine": cosine_schedule, "cyclic": cyclic_schedule,
             "constant": lambda progress: 1.0}
# What must not change between a run and its resumption.
FIXED = ("architecture", "classes", "width", "data", "epochs", "batch", "rate", "schedule", "momentum", "weight_decay",
         "no_augment", "loss", "start", "norm", "epsilon", "attack_steps", "step_size", "beta", "limit_train", "precision",
         "seed", "average", "crop")


class Trained(torch.nn.Module):
    """A network as it is trained: channels last, which is faster, and in bf16 where asked; its logits are float32."""

    def __init__(self, network, precision):
        super().__init__()
        self.network, self.bf16 = network.to(memory_format=torch.channels_last), precision == "bf16"

    def forward(self, images):
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.bf16):
            return self.network(images.contiguous(memory_format=torch.channels_last)).float()


class Kept:
    """The training loop, which goes on from a checkpoint in --out.

    A subclass names its `fixed` arguments and what it has `measured`, has the images' set as `data`, the module that
    learns as `learner` and an `optimiser`, gives the `losses` of a batch, and the weights as `state()` and
    `restore(state)`. What a checkpoint within an epoch has too are the attributes `under_way`.
    """

    fixed, measured, under_way = (), (), ("order", "step", "total", "seconds")

    def __init__(self, arguments):
        self.order, self.step, self.total, self.seconds = None, 0, 0.0, 0.0  # of the epoch that is under way, if one is
        self.arguments, self.device = arguments, device_of(arguments.device)
        torch.manual_seed(arguments.seed)
        self.generator = torch.Generator().manual_seed(arguments.seed)
        self.epoch = 0
        self.folder = pathlib.Path(arguments.out)
        self.folder.mkdir(parents=True, exist_ok=True)

    def settings(self):
        return json.dumps({name: getattr(self.arguments, name) for name in self.fixed})

    def save(self):
        # Tensors, whole numbers and text alone: what PyTorch 1.13 can load without running code.
        state = {**self.state(), "epoch": self.epoch, "generator": self.generator.get_state(),
                 "torch": torch.get_rng_state(), "settings": self.settings(),
                 "optimiser": self.optimiser.state_dict()["state"]}  # the rest of its state is in the arguments
        if self.order is not None:
            state |= {name: getattr(self, name) for name in self.under_way}
        self.write(CHECKPOINT, lambda path: torch.save(state, path))

    def write(self, name, how):
        """Write a file of the folder whole or not at all."""
        path = self.folder / name
        unfinished = path.with_suffix(".part")
        how(unfinished)
        unfinished.replace(path)

    def factor(self, progress):
        """Share of the rate after `progress` in [0, 1) of all steps."""
        return SCHEDULES[self.arguments.schedule](progress)

    def losses(self, chosen):
        """The loss of the images of these numbers, and the values whose means over an epoch are `measured`."""
        raise NotImplementedError

    def before_step(self):
        """Called before each step of the optimiser, when the gradients are there."""

    def stepped(self):
        """Called after each step of the optimiser."""

    def run_epoch(self):
        """One pass over the images, or the rest of one; the means of what is `measured`."""
        size, began = self.arguments.batch, time.time()
        if self.order is None:
            self.order = torch.randperm(len(self.data), generator=self.generator)
            self.step, self.total, self.seconds = 0, 0.0, 0.0
        steps = max(1, len(self.order) // size)
        self.learner.train()
        while self.step < steps:
            for group in self.optimiser.param_groups:
                group["lr"] = self.arguments.rate * self.factor((self.epoch + self.step / steps) / self.arguments.epochs)
            loss, *values = self.losses(self.order[self.step * size:(self.step + 1) * size].to(self.device))
            self.optimiser.zero_grad()
            loss.backward()
            self.before_step()
            self.optimiser.step()
            self.stepped()
            self.total = self.total + torch.stack(values).double()
            self.step += 1
            if self.step == steps or time.time() - began > SAVE_EVERY:  # judging the epoch takes a while
                if not torch.isfinite(self.total).all():
                    raise TrainingError(f"the loss is no number any more in epoch {self.epoch + 1}: take a lower --rate")
                self.seconds, began = self.seconds + time.time() - began, time.time()
                self.save()
        self.epoch, self.order = self.epoch + 1, None
        return dict(zip(self.measured, (self.total / steps).tolist()))

    def begin(self):
        """Go on from the checkpoint, with --resume; without it there must be none. The log keeps the epochs before it."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            self.forget()
            return
        if not self.arguments.resume:
            raise TrainingError(f"{path} exists: go on with --resume or name another --out")
        state = torch.load(path, map_location="cpu", weights_only=True)
        settings = json.loads(state["settings"])
        if missing := [name for name in self.fixed if name not in settings]:
            raise TrainingError(f"--resume: the checkpoint is of an earlier version, which had no "
                                f"--{missing[0].replace('_', '-')}")
        for name, value in settings.items():
            if value != getattr(self.arguments, name):
                raise TrainingError(f"--resume: the checkpoint was made with --{name.replace('_', '-')} {value}, "
                                    f"not {getattr(self.arguments, name)}")
        self.restore(state)
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state["optimiser"]})
        for name in set(self.under_way) & set(state):
            setattr(self, name, state[name])
        self.total = torch.as_tensor(self.total, device=self.device)
        self.epoch = state["epoch"]
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["torch"])
        self.forget()

    def forget(self):
        """Take epochs from the log that are to be made, which stand there where a run ended before it saved them."""
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        made = [line for line in lines if line.endswith("\n") and json.loads(line).get("epoch", 0) <= self.epoch]
        if made != lines:
            self.write(LOG, lambda path: path.write_text("".join(made), encoding="utf-8"))

    def log(self, **entry):
        """A line to the folder's log and to standard output."""
        with open(self.folder / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        cells = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in entry.items())
        print("  ".join(cells), flush=True)


class Run(Kept):
    """One training: network, optimiser and random state, which checkpoints hold whole."""

    fixed, measured = FIXED, ("loss",)

    def __init__(self, arguments, train_set, test_set):
        super().__init__(arguments)
        self.data, self.test_set = train_set.to(self.device), test_set.to(self.device)
        self.architecture, self.network = classifier(arguments, train_set.classes)
        if arguments.start:
            export.load_checkpoint(self.network, arguments.start)
        self.network.to(self.device)
        self.learner = Trained(self.network, arguments.precision)
        self.epsilon = EPSILON[arguments.norm] if arguments.epsilon is None else arguments.epsilon
        share = 1.25 if arguments.loss == "fast" else 0.25
        self.step_size = share * self.epsilon if arguments.step_size is None else arguments.step_size
        self.optimiser = torch.optim.SGD(self.network.parameters(), lr=arguments.rate, momentum=arguments.momentum,
                                         weight_decay=arguments.weight_decay, nesterov=arguments.momentum > 0)
        # Judged and exported is the network, or the average of its weights and of its normalisation's statistics.
        self.average = None
        if arguments.average:
            self.average = swa_utils.AveragedModel(
                self.network, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(arguments.average), use_buffers=True)
        self.judged = self.average.module if self.average else self.network

    def losses(self, chosen):
        loss = self.loss(*self.batch(chosen))
        return loss, loss.detach()

    def stepped(self):
        if self.average:
            self.average.update_parameters(self.network)

    def batch(self, chosen):
        """Augmented training images in [0, 1] and their labels, on the device."""
        images = self.data.images[chosen]
        if not self.arguments.no_augment:
            side = images.shape[-1]
            crop = self.arguments.crop
            images = datasets.augment(images, 0 if crop else side // CROP_PADDING, crop or side, self.generator)
        return images.float() / 255.0, self.data.labels[chosen]

    def loss(self, images, labels):
        """The batch's loss; leaves the network in training mode."""
        if self.arguments.loss == "fast":  # a gradient step from a random start, with the network as it is trained
            images = attacks.pgd(self.learner, images, labels, self.arguments.norm, self.epsilon, 1, self.step_size,
                                 attacks.cross_entropy_loss, self.generator)
        if self.arguments.loss != "trades":
            return functional.cross_entropy(self.learner(images), labels)
        return attacks.trades_loss(self.learner, images, labels, self.arguments.norm, self.epsilon, self.arguments.attack_steps,
                                   self.step_size, self.arguments.beta, self.generator)

    def evaluate(self, attack_steps):
        """Share of the test images labelled correctly, in float32; under PGD on the cross-entropy where attack_steps > 0."""
        self.judged.eval()
        generator = torch.Generator().manual_seed(self.arguments.seed)  # its own: judging must not change the training
        right = 0
        batches = zip(self.test_set.images.split(EVALUATION_BATCH), self.test_set.labels.split(EVALUATION_BATCH))
        for images, labels in batches:
            images = images.float() / 255.0
            if attack_steps:
                images = attacks.pgd(self.judged, images, labels, self.arguments.norm, self.epsilon, attack_steps,
                                     2.5 * self.epsilon / attack_steps, attacks.cross_entropy_loss, generator)
            with torch.no_grad():
                right += int((self.judged(images).argmax(dim=1) == labels).sum())
        return right / len(self.test_set)

    def state(self):
        more = {"average": self.average.state_dict()} if self.average else {}
        return {**more, "model": self.network.state_dict()}

    def restore(self, state):
        self.network.load_state_dict(state["model"])
        if self.average:
            self.average.load_state_dict(state["average"])

    def export(self):
        side = self.data.images.shape[-1]
        data = exporters.export(self.judged.cpu().eval(), torch.zeros(2, 3, side, side), "torchscript", self.arguments.opset,
                                self.architecture.input_name, self.architecture.output_name)
        self.write(MODEL, lambda path: path.write_bytes(data))


def device_of(name):
    """The device, which is there. Batches have one shape, so that on a GPU measuring kernels pays."""
    torch.backends.cudnn.benchmark = True
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as problem:
        raise TrainingError(f"--device {name}: {exporters.first_line(problem)}") from problem
    return device


def classifier(arguments, classes):
    """The architecture and network asked for, with the image set's classes unless --classes says otherwise."""
    architecture, options = export.chosen_network(arguments)
    if not architecture.classifies:
        raise TrainingError(f"{arguments.architecture} is an embedding, not a classifier")
    if options.setdefault("classes", classes) < classes:
        raise TrainingError(f"--classes {options['classes']} is less than the {classes} of {arguments.data}")
    return architecture, architecture.build(**options)


def train(arguments):
    """Train to the last epoch, judge and export."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    train_set = datasets.load(arguments.data, arguments.folder, train=True).head(arguments.limit_train)
    test_set = datasets.load(arguments.data, arguments.folder, train=False).head(arguments.limit_test)
    if arguments.crop:
        if arguments.no_augment:
            raise TrainingError("--crop is an augmentation: not with --no-augment")
        if arguments.crop > (side := train_set.images.shape[-1]):
            raise TrainingError(f"--crop {arguments.crop} is more than the images' {side} pixels")
    run = Run(arguments, train_set, test_set)
    run.begin()
    while run.epoch < arguments.epochs:
        means = run.run_epoch()
        run.log(epoch=run.epoch, **means, clean=run.evaluate(0), seconds=round(run.seconds, 1))
        run.save()
    final = {"clean": run.evaluate(0)}
    if arguments.evaluation_steps > 0:
        final[f"pgd_{arguments.norm}"] = run.evaluate(arguments.evaluation_steps)
    run.log(**final)
    run.export()
    print(f"{run.folder / MODEL}: {arguments.architecture}, opset {arguments.opset}")


def main(argv=None):
    arguments = parse(argv)
    try:
        train(arguments)
    except (TrainingError, ExportError, datasets.DatasetError, OSError) as problem:
        print(f"train.py: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
