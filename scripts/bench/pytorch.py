#!/usr/bin/env python3
"""Times passes of selfheal side by side with PyTorch's and writes the table of docs/measured/performance.md.

    python3 scripts/bench/pytorch.py --out docs/measured/performance.md [--also PYTHON] [--rounds 15]

Every cell is a network, a batch, a number of threads and a pass: forward, or forward and the gradient of the
cross-entropy by the images. Each side runs in a process of its own, held to the same cores, and they take turns:
in every round each runs the pass once, with a pause between, so that what else the machine does meets all of
them. PyTorch takes part in several forms: as it is, with channels innermost in memory, and so by torch.compile; on a
processor with instructions for bf16 each of them also under autocast to bf16, and selfheal in bf16 by OpenVINO. ÷ float32
is the time of PyTorch's fastest form in float32 divided by ours in float32, ÷ best that of its fastest form at all divided
by our fastest: the medians over the rounds of the ratios in the same round, the fastest by its median. A form that does
not start, because torch.compile finds no compiler or fails, is a dash. --also adds further interpreters, for other
versions of PyTorch. Peak memory is that of a process of
ours which runs only the gradient of ResNet-18.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from verify import documents

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = {"rn-18": "ResNet-18, 32×32", "wrn-28-8": "WRN-28-8, 32×32", "efficientnet-b0": "EfficientNet-B0, 64×64"}
BATCHES = (1, 16, 64)
THREADS = (1, 2)
PASSES = ("forward", "gradient")
SEED = 1
FORMS = {  # of PyTorch: autocast to bf16, channels innermost, torch.compile
    "float32": (False, False, False), "channels last": (False, True, False), "compiled": (False, True, True),
    "bf16": (True, False, False), "bf16, channels last": (True, True, False), "bf16, compiled": (True, True, True),
}
PAUSE = 0.02  # seconds between passes: PyTorch's threads spin for a while after their work


# ------------------------------------------------------------------ PyTorch's side, in a process of its own

def worker(name, batch, threads, onnx_file, device="cpu", tf32=False, form="float32"):
    """Answers each line of the input, forward or gradient, with the seconds that PyTorch took."""
    import torch
    from torch.nn import functional

    from paper.architectures import ARCHITECTURES, random_weights
    torch.set_num_threads(threads)
    architecture = ARCHITECTURES[name]
    network = random_weights(architecture.build(), architecture.input_shape(), SEED)
    if onnx_file:
        from zoo.exporters import export
        onnx_file.write_bytes(export(network, torch.rand(2, *architecture.input_shape()), "torchscript", 13))
        return
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    generator = torch.Generator().manual_seed(SEED)
    images = torch.rand(batch, *architecture.input_shape(), generator=generator).to(device)
    labels = (torch.arange(batch) % architecture.options["classes"]).to(device)
    if device != "cpu":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        network.to(device)
    bf16, last, compiled = FORMS[form]
    if last:
        network, images = network.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    answer = torch.compile(network) if compiled else network

    def logits(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            return answer(x).float()

    def forward():
        with torch.no_grad():
            logits(images)

    def gradient():
        moved = images.clone().requires_grad_(True)
        loss = functional.cross_entropy(logits(moved), labels, reduction="sum")
        torch.autograd.grad(loss, moved)

    passes = {"forward": forward, "gradient": gradient}
    for run in passes.values():  # warm up
        run()
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        run = passes[line.strip()]
        start = time.perf_counter()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        print(time.perf_counter() - start, flush=True)


# ------------------------------------------------------------------ the driver; needs no PyTorch

class Side:
    """A process that is asked for passes; form names PyTorch's, or what ours computes in."""

    def __init__(self, command, cores, form="float32"):
        self.form = form
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        greeting = self.process.stdout.readline().split()
        if greeting[:1] != ["ready"]:
            raise SystemExit(f"{' '.join(command)} did not start")
        self.version = greeting[1]

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def interpreters(also):
    return [sys.executable, *also]


def this_script(python, *arguments):
    return [python, str(pathlib.Path(__file__).resolve()), *map(str, arguments)]


def ours(bench, model, batch, threads, bf16=False):
    return [bench, "--model", str(model), "--batch", str(batch), "--threads", str(threads), *(["--provider", "openvino", "--precision", "bf16"] if bf16 else [])]


def started(command, cores, form):
    """A form of PyTorch, or None for one that does not run here; float32 must."""
    try:
        return Side(command, cores, form)
    except SystemExit:
        if form == "float32":
            raise
        return None


def ratios(sides, seconds, times, group, own):
    """How many times as long the fastest of a group's sides took as the fastest of ours: in float32, and at all."""
    found = []
    for holds in (lambda form: not form.startswith("bf16"), lambda form: True):
        fastest = [min((i for i in of if seconds[i] is not None and holds(sides[i].form)), key=lambda i: seconds[i])
                   for of in (group, own)]
        found.append(statistics.median(row[fastest[0]] / row[fastest[1]] for row in times))
    return found


def measure(bench, model, name, batch, threads, pythons, rounds, forms):
    """Rows of one network, batch and number of threads: for each pass the medians of seconds of each side, None where
    it did not start, and for each interpreter the two ratios."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    sides = [Side(ours(bench, model, batch, threads, bf16), cores, "bf16" if bf16 else "float32") for bf16 in precisions()]
    own = len(sides)
    groups = [range(own)]  # which sides are ours, and each interpreter's
    for p in pythons:
        groups.append(range(len(sides), len(sides) + len(forms)))
        sides += [started(this_script(p, "--worker", name, "--batch", batch, "--threads", threads, "--form", form), cores, form)
                  for form in forms]
    rows = []
    for which in PASSES:
        times = []
        for _ in range(rounds):
            row = []
            for side in sides:
                time.sleep(PAUSE)
                row.append(side and side.ask(which))
            times.append(row)
        seconds = [statistics.median(column) if column[0] is not None else None for column in zip(*times)]
        rows.append({
            "network": name, "batch": batch, "threads": threads, "pass": which,
            "seconds": [seconds[i:i + n] for i, n in ((group.start, len(group)) for group in groups)],
            "ratios": [ratios(sides, seconds, times, group, groups[0]) for group in groups[1:]],
        })
    versions = [sides[group.start].version for group in groups]
    for side in filter(None, sides):
        side.close()
    return rows, versions


def peak_memory(bench, model, batch, threads):
    side = Side(ours(bench, model, batch, threads), os.sched_getaffinity(0))
    for _ in range(3):
        side.ask("gradient")
    peak = side.ask("memory")
    side.close()
    return peak


def forms_here():
    """The forms of PyTorch that are worth a try on this processor."""
    return [form for form in FORMS if not FORMS[form][0] or True in precisions()]


def precisions():
    """Whether in bf16, of each of our sides."""
    return [False, True] if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8") else [False]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(rows, versions, forms):
    """Markdown: milliseconds of ours and of PyTorch's forms, and the two ratios."""
    heads = ["network", "pass", "threads", "batch", *["selfheal", "in bf16"][:len(rows[0]["seconds"][0])]]
    for version in versions[1:]:
        heads += [f"PyTorch {version.split('+')[0]}", *forms[1:], "÷ float32", "÷ best"]
    lines = []
    for row in rows:
        what = "forward" if row["pass"] == "forward" else "with gradient"
        cells = [NETWORKS[row["network"]], what, row["threads"], row["batch"], *map(milliseconds, row["seconds"][0])]
        for seconds, both in zip(row["seconds"][1:], row["ratios"]):
            cells += [*map(milliseconds, seconds), *(f"**{ratio:.2f}**" for ratio in both)]
        lines.append(cells)
    return documents.table(heads, lines)


def milliseconds(seconds):
    return "–" if seconds is None else f"{1000 * seconds:.1f} ms"


def report(rows, versions, memory, rounds, load, forms):
    best = [both[1] for row in rows for both in row["ratios"]]
    steps = [both[1] for row in rows for both in row["ratios"] if row["pass"] == "gradient" and row["threads"] == max(THREADS)]
    lines = [
        f"Measured {datetime.date.today().isoformat()} on {processor()}, {len(os.sched_getaffinity(0))} cores, whose load was "
        f"{load:.1f} before the start; ONNX Runtime {versions[0]}; medians of {rounds} rounds.", "",
        table(rows, versions, forms), "",
        f"Best against best the ratio is {min(best):.2f} to {max(best):.2f}; of gradients with {max(THREADS)} threads "
        f"{min(steps):.2f} to {max(steps):.2f}.", "",
        "| gradient of ResNet-18, batch | peak memory of the process |", "|--:|--:|",
        *(f"| {batch} | {peak / 2**20:.0f} MiB |" for batch, peak in memory), "",
    ]
    return "\n".join(lines)


START, END = "<!-- measured: written by make bench-pytorch -->", "<!-- end of what was measured -->"


def write(path, text):
    """Replace what stands between the markers."""
    old = path.read_text(encoding="utf-8")
    before, rest = old.split(START, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{START}\n\n{text}\n{END}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="document to write the table into (default: print it)")
    parser.add_argument("--also", action="append", default=[], metavar="PYTHON", help="a further interpreter with PyTorch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--forms", nargs="+", choices=FORMS, help="of PyTorch, float32 first (default: all that the processor has)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows as JSON too")
    parser.add_argument("--worker", choices=NETWORKS, help=argparse.SUPPRESS)
    parser.add_argument("--export", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=FORMS, default="float32", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help=argparse.SUPPRESS)
    parser.add_argument("--tf32", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.batch, arguments.threads or 1, arguments.export, arguments.device, arguments.tf32,
               arguments.form)
        return
    forms = arguments.forms or forms_here()
    if forms[0] != "float32":
        parser.error("--forms begins with float32")
    rows, memory, versions, load = [], [], None, os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        bench = str(pathlib.Path(folder) / "bench")
        subprocess.run(["go", "build", "-o", bench, "./scripts/bench/passes"], cwd=ROOT, check=True)
        for name in arguments.networks:
            model = pathlib.Path(folder) / f"{name}.onnx"
            subprocess.run(this_script(sys.executable, "--worker", name, "--export", model), check=True)
            for threads in THREADS:
                for batch in arguments.batches:
                    more, versions = measure(bench, model, name, batch, threads, interpreters(arguments.also),
                                             arguments.rounds, forms)
                    rows += more
                    for row in more:
                        print(name, row["pass"], f"batch {batch}, {threads} threads:",
                              " ".join(milliseconds(s) for of in row["seconds"] for s in of),
                              "ratios", " ".join(f"{r:.2f}" for both in row["ratios"] for r in both), flush=True, file=sys.stderr)
            if name == "rn-18":
                memory = [(batch, peak_memory(bench, model, batch, max(THREADS))) for batch in (16, 32, 64, 128)]
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "versions": versions, "memory": memory}, indent=1), encoding="utf-8")
    text = report(rows, versions, memory, arguments.rounds, load, forms)
    if arguments.out:
        write(arguments.out, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
