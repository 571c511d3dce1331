"""Tests of the image sets, TRADES and train.py, on a few images and narrow networks."""

import contextlib
import io
import json
import math
import pathlib
import tempfile
import unittest
import unittest.mock

try:
    import numpy as np
    import onnx
    import torch

    from paper import cifar_images
    from paper.architectures import ARCHITECTURES, random_weights
    from zoo import attacks, datasets, train
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch here: {problem}"

try:
    from PIL import Image
    missing_pillow = None
except ImportError as problem:
    missing_pillow = f"no Pillow here: {problem}"


def command(*arguments, main=None):
    """Exit code, standard output and standard error of a script's main, train's by default."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = (main or train.main)([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code
    return code, out.getvalue(), err.getvalue()


def records(path, count, label_bytes, seed):
    """Random CIFAR records; returns the images and the last label of each."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, (count, label_bytes), dtype=np.uint8)
    images = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.concatenate([labels, images.reshape(count, -1)], axis=1).tobytes())
    return images, labels[:, -1]


@unittest.skipIf(missing_torch, missing_torch)
class ImageSets(unittest.TestCase):
    def test_cifar10_reads_its_five_files_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            parts = [records(root / "cifar-10-batches-bin" / f"data_batch_{i}.bin", 4, 1, i) for i in range(1, 6)]
            found = datasets.load("cifar10", root, train=True)
        self.assertTrue(np.array_equal(found.images.numpy(), np.concatenate([images for images, _ in parts])))
        self.assertTrue(np.array_equal(found.labels.numpy(), np.concatenate([labels for _, labels in parts])))
        self.assertEqual(found.classes, 10)

    def test_cifar100_takes_the_fine_label(self):
        with tempfile.TemporaryDirectory() as folder:
            images, fine = records(pathlib.Path(folder) / "test.bin", 6, 2, 1)
            found = datasets.load("cifar100", folder, train=False)
        self.assertTrue(np.array_equal(found.images.numpy(), images))
        self.assertTrue(np.array_equal(found.labels.numpy(), fine))

    def test_bundled_images(self):
        found = datasets.load("shapes10", None, train=False)
        images, labels = datasets.read_records(datasets.SHAPES10 / "test.bin")
        self.assertTrue(np.array_equal(found.images.numpy(), images) and np.array_equal(found.labels.numpy(), labels))

    @unittest.skipIf(missing_pillow, missing_pillow)
    def test_tiny_imagenet(self):
        colours = {"n02": (200, 10, 30), "n01": (5, 150, 90)}  # wnids.txt is not sorted: n02 is label 0
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "tiny-imagenet-200"
            (root / "val" / "images").mkdir(parents=True)
            (root / "wnids.txt").write_text("n02\nn01\n")
            for name, colour in colours.items():
                (root / "train" / name / "images").mkdir(parents=True)
                for index in range(2):
                    Image.new("RGB", (64, 64), colour).save(root / "train" / name / "images" / f"{name}_{index}.JPEG")
            Image.new("L", (64, 64), 77).save(root / "val" / "images" / "val_0.JPEG")
            (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01\t0\t0\t62\t62\n")
            training, validation = (datasets.load("tiny-imagenet", folder, part) for part in (True, False))
            (root / "wnids.txt").write_text("n02\n")
            with self.assertRaisesRegex(datasets.DatasetError, "class n01, which is not in wnids.txt"):
                datasets.load("tiny-imagenet", folder, False)
        self.assertEqual((training.labels.tolist(), validation.labels.tolist(), training.classes), ([0, 0, 1, 1], [1], 2))
        for image, colour in zip(training.images[::2], colours.values()):
            means = image.float().mean(dim=(1, 2)).tolist()
            self.assertTrue(all(abs(mean - wanted) < 4 for mean, wanted in zip(means, colour)), means)
        self.assertLess(float((validation.images.float() - 77).abs().max()), 3)

    def test_broken_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            with self.assertRaisesRegex(datasets.DatasetError, "test_batch.bin is missing"):
                datasets.load("cifar10", root, False)
            (root / "test_batch.bin").write_bytes(bytes(3074))
            with self.assertRaisesRegex(datasets.DatasetError, "3074 bytes, no whole number of records of 3073"):
                datasets.load("cifar10", root, False)
            (root / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
            with self.assertRaisesRegex(datasets.DatasetError, "label 10 in a set of 10 classes"):
                datasets.load("cifar10", root, False)
            with self.assertRaisesRegex(datasets.DatasetError, "wnids.txt is missing"):
                datasets.load("tiny-imagenet", root, True)

    def test_augmentation_crops_and_flips_whole_images(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(1, 256, (64, 3, 8, 8), generator=generator, dtype=torch.uint8)
        padded = torch.nn.functional.pad(images, [2] * 4)
        seen = set()
        for image, source in zip(datasets.augment(images, 2, 8, generator), padded):
            seen.add(self.only_window(image, source))
        self.assertGreater(len(seen), 20)
        self.assertEqual({flip for _, _, flip in seen}, {False, True})

    def test_augmentation_takes_smaller_windows(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(1, 256, (64, 3, 8, 8), generator=generator, dtype=torch.uint8)
        windows = datasets.augment(images, 0, 6, generator)
        self.assertEqual(windows.shape, (64, 3, 6, 6))
        seen = {self.only_window(window, source) for window, source in zip(windows, images)}
        self.assertEqual({(top, left) for top, left, _ in seen}, {(top, left) for top in range(3) for left in range(3)})

    def only_window(self, image, source):
        """Top, left and whether it is flipped of the one window of the source that the image is."""
        side, places = image.shape[-1], range(source.shape[-1] - image.shape[-1] + 1)
        matches = [(top, left, flip) for top in places for left in places for flip in (False, True)
                   if torch.equal(image.flip(2) if flip else image, source[:, top:top + side, left:left + side])]
        self.assertEqual(len(matches), 1)
        return matches[0]


@unittest.skipIf(missing_torch or missing_pillow, missing_torch or missing_pillow)
class CifarImages(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        self.pixels = self.folders(10)

    def folders(self, classes):
        """Writes two images of each class into the folder train, and returns all."""
        pixels = np.random.default_rng(1).integers(0, 256, (classes, 2, 32, 32, 3), dtype=np.uint8)
        for label, images in enumerate(pixels):
            (self.root / "train" / f"class_{label:02}").mkdir(parents=True, exist_ok=True)
            for index, image in enumerate(images):
                Image.fromarray(image).save(self.root / "train" / f"class_{label:02}" / f"{index:04}.png")
        return pixels

    def convert(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cifar_images.main([str(self.root / "train"), "--out", str(self.root / "bin"), *map(str, arguments)])
        return code, err.getvalue()

    def test_classes_take_turns(self):
        records(self.root / "test.bin", 7, 1, 3)
        self.assertEqual(self.convert("--test", self.root / "test.bin"), (0, ""))
        found = datasets.load("cifar10", self.root / "bin", train=True)
        self.assertEqual(found.labels.tolist(), 2 * list(range(10)))
        self.assertTrue(np.array_equal(found.images.numpy(), self.pixels.transpose(1, 0, 4, 2, 3).reshape(20, 3, 32, 32)))
        self.assertEqual((self.root / "bin" / "test_batch.bin").read_bytes(), (self.root / "test.bin").read_bytes())
        self.assertEqual(self.convert("--test", self.root / "train"), (0, ""))
        tested = datasets.load("cifar10", self.root / "bin", train=False)
        self.assertTrue(torch.equal(tested.images, found.images))
        self.assertEqual(tested.labels.tolist(), found.labels.tolist())

    def test_a_hundred_folders_are_cifar100(self):
        pixels = self.folders(100)
        self.assertEqual(self.convert("--test", self.root / "train"), (0, ""))
        for train in (True, False):
            found = datasets.load("cifar100", self.root / "bin", train)
            self.assertEqual(found.labels.tolist(), 2 * list(range(100)))
            self.assertTrue(np.array_equal(found.images.numpy(), pixels.transpose(1, 0, 4, 2, 3).reshape(200, 3, 32, 32)))

    def test_errors_are_one_line(self):
        (self.root / "train" / "class_03" / "0001.png").unlink()
        code, err = self.convert()
        self.assertEqual((code, err.count("\n")), (1, 1))
        self.assertIn("1 of class_03", err)
        (self.root / "train" / "class_03" / "0001.png").write_bytes(b"no image")
        self.assertIn("0001.png is no image", self.convert()[1])
        Image.new("RGB", (33, 32)).save(self.root / "train" / "class_03" / "0001.png")
        self.assertIn("33x32, not 32x32", self.convert()[1])
        (self.root / "train" / "class_10").mkdir()
        self.assertIn("has 11 folders of images; CIFAR has 10 or 100 classes", self.convert()[1])


@unittest.skipIf(missing_torch, missing_torch)
class Trades(unittest.TestCase):
    def setUp(self):
        self.network = random_weights(ARCHITECTURES["rn-18"].build(width=4), (3, 16, 16), 1, calibration_batch=16)
        generator = torch.Generator().manual_seed(2)
        self.images = torch.rand(6, 3, 16, 16, generator=generator)
        self.labels = torch.arange(6)

    def test_divergence_is_the_kullback_leibler_divergence(self):
        logits, other = torch.tensor([[0.3, -1.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.5]])
        p, q = other.softmax(1)[0], logits.softmax(1)[0]
        wanted = sum(float(a) * math.log(float(a) / float(b)) for a, b in zip(p, q))
        self.assertAlmostEqual(float(attacks.divergence(logits, other.softmax(1))), wanted, places=6)

    def test_perturbed_images_stay_inside_and_diverge(self):
        norms = {"linf": lambda d: d.abs().amax(1), "l2": lambda d: d.norm(dim=1)}
        for norm, epsilon in train.EPSILON.items():
            found = attacks.trades_attack(self.network, self.images, norm, epsilon, 5, epsilon / 4, torch.Generator().manual_seed(1))
            sizes = norms[norm]((found - self.images).flatten(1))
            self.assertLessEqual(float(sizes.max()), epsilon * 1.0001)
            self.assertGreater(float(sizes.min()), 0.5 * epsilon, "the attack does not use its ball")
            self.assertGreaterEqual(float(found.min()), 0.0)
            self.assertLessEqual(float(found.max()), 1.0)
            noise = attacks.random_start(self.images, norm, epsilon, torch.Generator().manual_seed(3))
            with torch.no_grad():
                natural = self.network(self.images).softmax(1)
                attacked, random = (attacks.divergence(self.network(x), natural).mean() for x in (found, self.images + noise))
            self.assertGreater(float(attacked), 2 * float(random))

    def test_loss_weighs_the_divergence(self):
        def at(beta):
            network = random_weights(ARCHITECTURES["rn-18"].build(width=4), (3, 16, 16), 1, calibration_batch=16).train()
            value = attacks.trades_loss(network, self.images, self.labels, "linf", 8 / 255, 2, 2 / 255, beta, torch.Generator().manual_seed(1))
            self.assertTrue(network.training)
            # The clean and the attacked batch, but none of the attack's own passes.
            self.assertEqual(int(network.norm.num_batches_tracked), 2)
            return value.item()
        natural, once, twice = at(0.0), at(1.0), at(2.0)
        self.network.train()
        self.assertAlmostEqual(natural, torch.nn.functional.cross_entropy(self.network(self.images), self.labels).item(), places=5)
        self.assertGreater(once, natural)
        self.assertAlmostEqual(twice - once, once - natural, places=5)


@unittest.skipIf(missing_torch, missing_torch)
class Training(unittest.TestCase):
    # At width 4 PyTorch 1.13 and 2.15 corrupt their memory on processors with AVX2 alone, channels last.
    SMALL = ("--architecture", "rn-18", "--width", 8, "--data", "shapes10", "--limit-test", 40, "--threads", 1)

    def losses(self, folder):
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "log.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]

    def test_a_network_learns_its_training_images(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 25, "--schedule", "cosine",
                                   "--rate", 0.05, "--no-augment", "--evaluation-steps", 0, "--out", folder)
            self.assertEqual((code, err), (0, ""))
            losses = self.losses(folder)
            self.assertLess(losses[-1], 0.5 * losses[0])
            after = pathlib.Path(folder) / "after"  # which begins with what that has learned
            code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 1, "--rate", 1e-9, "--no-augment",
                                   "--evaluation-steps", 0, "--start", f"{folder}/checkpoint.pt", "--out", after)
            self.assertEqual((code, err), (0, ""))
            self.assertLess(self.losses(after)[0], 0.6 * losses[0])

    def test_a_resumed_run_ends_as_an_uninterrupted_one(self):
        settings = (*self.SMALL, "--limit-train", 60, "--batch", 20, "--epochs", 2, "--loss", "trades", "--attack-steps", 2,
                    "--evaluation-steps", 2, "--average", 0.9)
        with tempfile.TemporaryDirectory() as folder:
            whole, broken = pathlib.Path(folder) / "whole", pathlib.Path(folder) / "broken"
            self.assertEqual(command(*settings, "--resume", "--out", whole)[0], 0)  # from the beginning: there is no checkpoint
            evaluate, calls = train.Run.evaluate, []

            def interrupted(run, attack_steps):
                calls.append(attack_steps)
                raise OSError("interrupted")
            train.Run.evaluate = interrupted
            try:
                self.assertEqual(command(*settings, "--out", broken)[0], 1)
            finally:
                train.Run.evaluate = evaluate
            self.assertEqual(len(calls), 1, "interrupted after the first epoch")
            code, _, err = command(*settings, "--out", broken)
            self.assertEqual((code, "go on with --resume" in err), (1, True), err)
            code, _, err = command(*settings, "--beta", 1, "--resume", "--out", broken)
            self.assertEqual((code, "made with --beta 6.0, not 1.0" in err), (1, True), err)
            code, _, err = command(*settings, "--resume", "--out", broken)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual((whole / "model.onnx").read_bytes(), (broken / "model.onnx").read_bytes())
            self.assertEqual(self.losses(whole), self.losses(broken))

    def test_what_diverges_is_not_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 1, "--rate", 1e30, "--out", folder)
            self.assertEqual((code, "is no number any more in epoch 1: take a lower --rate" in err), (1, True), err)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], [])

    def test_a_run_ended_within_an_epoch_goes_on_there(self):
        settings = (*self.SMALL, "--limit-train", 60, "--batch", 20, "--epochs", 2, "--evaluation-steps", 0)
        loss, every, calls = train.Run.loss, train.SAVE_EVERY, []

        def interrupted(run, *batch):
            calls.append(run.step)
            if len(calls) == 5:
                raise OSError("interrupted")
            return loss(run, *batch)
        with tempfile.TemporaryDirectory() as folder:
            whole, broken = pathlib.Path(folder) / "whole", pathlib.Path(folder) / "broken"
            self.assertEqual(command(*settings, "--out", whole)[0], 0)
            train.Run.loss, train.SAVE_EVERY = interrupted, -1
            try:
                self.assertEqual(command(*settings, "--out", broken)[0], 1)
            finally:
                train.Run.loss, train.SAVE_EVERY = loss, every
            self.assertEqual(calls, [0, 1, 2, 0, 1], "interrupted after the second epoch's first step")
            train.Run.loss = lambda run, *batch: calls.append(run.step) or loss(run, *batch)
            try:
                self.assertEqual(command(*settings, "--resume", "--out", broken)[0], 0)
            finally:
                train.Run.loss = loss
            self.assertEqual(calls[5:], [1, 2])
            self.assertEqual((whole / "model.onnx").read_bytes(), (broken / "model.onnx").read_bytes())
            self.assertEqual(self.losses(whole), self.losses(broken))

    def test_averaged_weights_are_exported(self):
        """An average that forgets all but a hundredth at each step is nearly the last weights; a slow one is not."""
        weights = {}
        for decay in (0, 0.01, 0.99):
            with tempfile.TemporaryDirectory() as folder:
                code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 3, "--no-augment",
                                       "--evaluation-steps", 0, "--average", decay, "--out", folder)
                self.assertEqual((code, err), (0, ""))
                graph = onnx.load(pathlib.Path(folder) / "model.onnx").graph
                weights[decay] = np.concatenate([onnx.numpy_helper.to_array(w).ravel() for w in graph.initializer
                                                 if w.data_type == onnx.TensorProto.FLOAT])
        near, far = (np.abs(weights[decay] - weights[0]).max() for decay in (0.01, 0.99))
        self.assertTrue(0 < near < 0.1 * far, (near, far))

    def test_crops_are_what_it_learns_from(self):
        with tempfile.TemporaryDirectory() as folder:
            sides, loss = set(), train.Run.loss
            train.Run.loss = lambda run, images, labels: sides.add(images.shape[-1]) or loss(run, images, labels)
            try:
                code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 1, "--crop", 24,
                                       "--evaluation-steps", 0, "--out", folder)
            finally:
                train.Run.loss = loss
            self.assertEqual((code, err, sides), (0, "", {24}))
            shape = onnx.load(pathlib.Path(folder) / "model.onnx").graph.input[0].type.tensor_type.shape
            self.assertEqual([size.dim_value for size in shape.dim[2:]], [32, 32])
            for flags, said in ((("--crop", 33), "--crop 33 is more than the images' 32 pixels"),
                                (("--crop", 24, "--no-augment"), "--crop is an augmentation: not with --no-augment")):
                code, _, err = command(*self.SMALL, *flags, "--out", folder)
                self.assertEqual((code, err), (1, f"train.py: error: {said}\n"))

    def test_schedules(self):
        self.assertEqual([round(train.step_schedule(p), 6) for p in (0.0, 0.74, 0.75, 0.9, 0.99)], [1.0, 1.0, 0.1, 0.01, 0.01])
        self.assertAlmostEqual(train.cosine_schedule(0.0), 1.0)
        self.assertAlmostEqual(train.cosine_schedule(0.5), 0.5)
        self.assertEqual([round(train.cyclic_schedule(p), 6) for p in (0.0, 0.2, 0.4, 0.7, 1.0)], [0.0, 0.5, 1.0, 0.5, 0.0])

    def test_bf16_learns_and_is_exported_as_float32(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = command(*self.SMALL, "--limit-train", 40, "--batch", 20, "--epochs", 25, "--schedule", "cyclic",
                                   "--rate", 0.1, "--no-augment", "--precision", "bf16", "--evaluation-steps", 0, "--out", folder)
            self.assertEqual((code, err), (0, ""))
            losses = self.losses(folder)
            self.assertLess(losses[-1], 0.5 * losses[0])
            model = onnx.load(pathlib.Path(folder) / "model.onnx")
            self.assertEqual({weight.data_type for weight in model.graph.initializer} - {onnx.TensorProto.INT64},
                             {onnx.TensorProto.FLOAT})

    def test_fast_training_attacks_what_it_learns(self):
        """One step of 5/4 epsilon from a random start inside the ball, back in it, and in the range of pixels."""
        seen = []
        settings = (*self.SMALL, "--limit-train", 20, "--batch", 20, "--epochs", 1, "--no-augment", "--evaluation-steps", 0)
        pgd, cross_entropy = attacks.pgd, train.functional.cross_entropy

        def watched(network, images, labels, norm, epsilon, steps, step_size, loss, generator):
            found = pgd(network, images, labels, norm, epsilon, steps, step_size, loss, generator)
            seen.append((network.training, steps, step_size / epsilon, float((found - images).abs().max()) / epsilon,
                         float(found.min()), float(found.max())))
            with torch.no_grad():
                network.eval()
                clean, attacked = (float(cross_entropy(network(x), labels)) for x in (images, found))
                network.train()
            self.assertGreater(attacked, clean)
            return found
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(attacks, "pgd", watched):
            self.assertEqual(command(*settings, "--loss", "fast", "--out", folder)[0], 0)
        ((training, steps, share, farthest, least, most),) = seen
        self.assertEqual((training, steps), (True, 1))
        self.assertAlmostEqual(share, 1.25)
        self.assertTrue(0.9 < farthest < 1.0001 and least >= 0 and most <= 1, seen)

    def test_errors_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            cases = (
                (("--architecture", "segnet", "--data", "shapes10"), "segnet is an embedding, not a classifier"),
                (("--architecture", "rn-18", "--data", "shapes10", "--start", "none.pt"), "checkpoint none.pt: No such file"),
                (("--architecture", "rn-18", "--data", "cifar10"), "--folder is missing"),
                (("--architecture", "rn-18", "--data", "mnist"), "invalid choice"),
                (("--architecture", "rn-18", "--classes", 3, "--data", "shapes10"), "less than the 10 of shapes10"),
                (("--architecture", "rn-18", "--data", "shapes10", "--device", "nonsense"), "--device nonsense"),
            )
            for arguments, message in cases:
                code, _, err = command(*arguments, "--out", pathlib.Path(folder) / "run")
                self.assertGreater(code, 0, arguments)
                self.assertTrue(err.startswith("train.py: error: ") and err.count("\n") == 1, err)
                self.assertIn(message, err)
