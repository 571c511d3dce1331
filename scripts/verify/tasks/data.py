#!/usr/bin/env python3
"""Makes the images and truths on which compare.py attacks networks of others under tasks.

    python3 scripts/verify/tasks/data.py FOLDER

FOLDER holds clones at these commits and a wheel, and gets a folder for each network:

    git clone https://github.com/ChristopherBrix/vnncomp2022_benchmarks                            # 324ce344
    git clone https://github.com/cunjian/pytorch_face_landmark                                     # 6f34bf9f
    git clone https://github.com/KennethWang1221/Face-Detection-and-Recognition-System             # 5638c7a4
    git clone https://github.com/Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB                # dffdddda
    git clone https://github.com/johnraivenolazo/face-antispoof-onnx                               # 2b9830bb
    git clone https://github.com/hpc203/yolo-fastestv2-opencv                                      # f865b7c
    pip download --no-deps rapidocr_onnxruntime==1.4.4
    pip download --no-deps ultralytics==8.4.190                                                    # two photos

UltraFace RFB-640 finds faces in the repositories' photos. docs/measured/tasks.md says how their truths are made, as no
repository has any.
"""

import argparse
import functools
import gzip
import io
import pathlib
import re
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import parser
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

BICUBIC, BILINEAR = Image.Resampling.BICUBIC, Image.Resampling.BILINEAR
ARCFACE = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]])
TEXT = (
    "the quick network reads every printed line that stands before it and sometimes none at all because noise is small "
    "but well chosen 2026 TEXT Harbour Street No 17 open daily from nine until six"
)
HEAD = """<ir_version: 8, opset_import: ["": 13]>
head (float[N, 2] answer, float[N, 1] truth) => (float[N, 1] right, float[N, 1] wrong)
  <float[2, 1] apart = {1, -1}, float[1] two = {2}, float[1] one = {1}, float[1] zero = {0}> {
  margin = MatMul(answer, apart)
  twice = Mul(truth, two)
  sign = Sub(twice, one)
  right = Mul(margin, sign)
  wrong = Mul(right, zero)
}"""


# An object stays found if some box of the grid covers it by half, with its class first, and both scores above 0.3.
DETECTION = """<ir_version: 8, opset_import: ["": 13]>
detection (float[N, 605, 95] answer, float[N, 84] truth) => (float[N, 1] right, float[N, 1] wrong)
  <float[1] zero = {0}, float[1] half = {0.5}, float[1] two = {2}, float[1] least = {0.3}, int64[1] last = {-1},
   int64[3] parts = {12, 3, 80}, int64[4] boxed = {0, 605, 3, 4}, int64[2] pair = {2, 2}, int64[2] one = {1, 1},
   int64[3] truths = {2, 2, 80}, int64[4] corner = {0, 1, 1, 2}, int64[3] classes = {0, 1, 80},
   int64[2] flat = {0, -1}> {
  boxes, seen, chances = Split <axis = 2> (answer, parts)
  each = Reshape(boxes, boxed)
  places, sizes = Split <axis = 3> (each, pair)
  start, end, class = Split <axis = 1> (truth, truths)
  from = Reshape(start, corner)
  to = Reshape(end, corner)
  place2 = Mul(places, two)
  moved = Add(place2, grid)
  middle = Mul(moved, stride)
  size2 = Mul(sizes, two)
  squared = Mul(size2, size2)
  size = Mul(squared, anchors)
  reach = Mul(size, half)
  low = Sub(middle, reach)
  high = Add(middle, reach)
  inner = Max(low, from)
  outer = Min(high, to)
  gap = Sub(outer, inner)
  common = Max(gap, zero)
  commonX, commonY = Split <axis = 3> (common, one)
  shared = Mul(commonX, commonY)
  sizeX, sizeY = Split <axis = 3> (size, one)
  area = Mul(sizeX, sizeY)
  side = Sub(to, from)
  sideX, sideY = Split <axis = 3> (side, one)
  own = Mul(sideX, sideY)
  both = Add(area, own)
  union = Sub(both, shared)
  overlap = Div(shared, union)
  overlaps = Squeeze(overlap, last)
  covers = Sub(overlaps, half)
  there = Sub(seen, least)
  asked = Reshape(class, classes)
  chance = Mul(chances, asked)
  its = ReduceSum <keepdims = 1> (chance, last)
  sure = Sub(its, least)
  away = Mul(asked, two)
  rest = Sub(chances, away)
  others = ReduceMax <axes = [-1], keepdims = 1> (rest)
  first = Sub(its, others)
  found = Min(covers, there, sure, first)
  all = Reshape(found, flat)
  right = ReduceMax <axes = [1], keepdims = 1> (all)
  wrong = Mul(right, zero)
}"""


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def save(folder, network, **arrays):
    """Write NAME.npy for each array, and the network as network.onnx; it is a path, or a file's bytes."""
    folder.mkdir(exist_ok=True)
    data = network if isinstance(network, bytes) else network.read_bytes()
    (folder / "network.onnx").write_bytes(data)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    print(folder.name, {name: array.shape for name, array in arrays.items()}, flush=True)


def cut(model, output):
    """The bytes of a network that ends at one of the model's tensors."""
    known = onnx.shape_inference.infer_shapes(model)
    return onnx.utils.Extractor(known).extract_model([model.graph.input[0].name], [output]).SerializeToString()


# --------------------------------------------------------- properties of the neural-network verification competition


def bounds(path):
    """The lower and upper bounds of a VNN-LIB property's inputs, and its text."""
    text, sides = gzip.decompress(path.read_bytes()).decode(), {"<=": {}, ">=": {}}
    for side, index, value in re.findall(r"\(assert \((<=|>=) X_(\d+) ([-+0-9.eE]+)\)\)", text):
        sides[side][int(index)] = float(value)
    lower, upper = (np.array([sides[side][i] for i in range(len(sides[side]))]) for side in (">=", "<="))
    return lower, upper, text


def carvana(source, out):
    """A photo is the middle of the box of the property with the smallest epsilon, where [0, 1] does not cut the box.

    The file goes on and counts the right pixels. It is cut where it has the scores of the pixels' classes.
    """
    smallest = {}
    for path in sorted((source / "vnnlib").glob("*.gz")):
        image, epsilon = re.match(r"spec_.*_idx_(.*)_eps_(.*).vnnlib", path.name).groups()
        if image not in smallest or float(epsilon) < smallest[image][0]:
            smallest[image] = float(epsilon), path
    photos = []
    for epsilon, path in smallest.values():
        lower, upper = (side.reshape(4, 31, 47) for side in bounds(path)[:2])
        middle = np.where(upper >= 1, lower + epsilon, (lower + upper) / 2)
        x = np.where(lower <= 0, upper - epsilon, middle)
        x[3] = lower[3]  # the mask, which no property moves
        photos.append(np.clip(x, 0, 1).astype(np.float32))
    x, network = np.stack(photos), source / "onnx" / "unet_simp_small.onnx.gz"
    graph = onnx.load_from_string(gzip.decompress(network.read_bytes()))
    save(out, cut(graph, "out_mask"), x=x, truth=x[:, 3].reshape(len(x), -1))


def rul(source, out):
    """Middles, corners and random points of the robustness properties; the truth is the middle of what they allow."""
    windows, truths = {}, []
    for path in sorted((source / "vnnlib").glob("robustness*_w20.vnnlib.gz")):
        lower, upper, text = bounds(path)
        truth = np.mean([float(value) for value in re.findall(r"Y_0 ([0-9.]+)", text)[:2]])
        rng = np.random.default_rng(len(windows))
        for x in [(lower + upper) / 2, lower, upper, *(lower + (upper - lower) * rng.random(400) for _ in range(3))]:
            window = x.astype(np.float32).reshape(1, 20, 20)
            if window.tobytes() not in windows:
                windows[window.tobytes()] = window
                truths.append([truth])
    x = ((np.stack(list(windows.values())) + 4) / 14).astype(np.float32)
    network = gzip.decompress((source / "onnx" / "NN_rul_small_window_20.onnx.gz").read_bytes())
    save(out, network, x=x, truth=np.array(truths, np.float32))


# ------------------------------------------------------------------------------------------------------------- faces


@functools.lru_cache(maxsize=1)
def photo(path):
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


def pixels(image):
    return (np.asarray(image, np.float32) / 255).transpose(2, 0, 1)


def crop(image, x, y, side, out):
    """A square of `side` pixels around (x, y), black outside the photo, as `out` by `out` pixels."""
    left, top = x - side / 2, y - side / 2
    if side > 2 * out:
        corner = int(left), int(top)
        return image.crop((*corner, corner[0] + int(side), corner[1] + int(side))).resize((out, out), BILINEAR)
    filter_ = BICUBIC if side < 1.5 * out else BILINEAR
    return image.transform((out, out), Image.Transform.AFFINE, (side / out, 0, left, 0, side / out, top), filter_)


def overlap(boxes, box):
    """Intersection over union of boxes with one box; each is left, top, right, bottom."""
    low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
    area, areas = np.prod(box[2:] - box[:2]), np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    return shared / (areas + area - shared)


def find_faces(paths, detector):
    """Each face of at least 0.9 as (its photo's path, its box in pixels), after non-maximum suppression at 0.3."""
    faces, detector = [], session(detector)
    for path in paths:
        x = (np.asarray(photo(path).resize((640, 480), BILINEAR), np.float32) - 127) / 128
        scores, boxes = (answer[0] for answer in detector.run(None, {"input": x.transpose(2, 0, 1)[None]}))
        kept = []
        for i in np.argsort(-scores[:, 1]):
            if scores[i, 1] < 0.9:
                break
            if not kept or overlap(boxes[kept], boxes[i]).max() <= 0.3:
                kept.append(i)
        faces += [(path, boxes[i] * np.array(photo(path).size * 2)) for i in kept]
    return faces


def some(faces, size, most):
    """Faces of at least `size` pixels in height and width, at most `most` of a photo."""
    count = {}
    for path, box in faces:
        if min(box[2] - box[0], box[3] - box[1]) >= size and count.get(path, 0) < most:
            count[path] = count.get(path, 0) + 1
            yield path, box


def square(box):
    """Returns the square around a box that PFLD takes: its centre and its side, in pixels."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, min(box[2] - box[0], box[3] - box[1]) * 1.2


def landmarks(network, image, x, y, side):
    """PFLD's 68 points in the photo's pixels."""
    (answer,) = network.run(None, {"input": pixels(crop(image, x, y, side, 112))[None]})
    return answer[0].reshape(68, 2) * side + np.array([x - side / 2, y - side / 2])


def pfld(source, out, faces, rng):
    """The truth is the median of PFLD's own answers on 8 crops that are shifted and larger or smaller."""
    network, images, truths = session(source), [], []
    for path, box in list(some(faces, 56, 6))[:100]:
        x, y, side = square(box)
        images.append(pixels(crop(photo(path), x, y, side, 112)))
        answers = []
        for _ in range(8):
            wider, right, down = side * rng.uniform(0.95, 1.15), *(side * rng.uniform(-0.05, 0.05) for _ in range(2))
            points = landmarks(network, photo(path), x + right, y + down, wider)
            answers.append((points - np.array([x - side / 2, y - side / 2])) / side)
        truths.append(np.median(answers, 0).reshape(-1))
    save(out, source, x=np.stack(images), truth=np.stack(truths).astype(np.float32))


def align(network, image, box, turn=0.0, grow=1.0, shift=(0, 0)):
    """The face as ArcFace's networks take it, by the similarity that fits five of PFLD's points best."""
    p = landmarks(network, image, *square(box))
    points = np.stack([p[36:42].mean(0), p[42:48].mean(0), p[30], p[48], p[54]])
    turned = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    places = (ARCFACE - 56) * grow @ turned + 56 + np.array(shift)
    rows = [row for u, v in places for row in ([u, -v, 1, 0], [v, u, 0, 1])]
    fit = np.linalg.lstsq(np.array(rows), points.reshape(-1), rcond=None)[0]
    if (scale := np.hypot(fit[0], fit[1])) > 1.5:  # the photo shrinks first, against aliasing
        image = image.resize((int(image.width / scale), int(image.height / scale)), Image.Resampling.LANCZOS)
        fit = fit / scale
    a, b, x, y = fit
    return image.transform((112, 112), Image.Transform.AFFINE, (a, -b, x, b, a, y), BICUBIC)


def mobilefacenet(source, out, faces, landmarker, rng):
    """A gallery of one photo a person, and four copies of each: turned, moved, mirrored, relit, as poor JPEG."""
    network, landmarker = session(source), session(landmarker)
    gallery, probes = [], []
    people = sorted({path for path, _ in faces if path.parent.name == "database" and path.name != "0024.png"})
    for path in people:  # 0024.png is the same file as 0016.jpg
        box = max((box for where, box in faces if where == path), key=lambda box: box[2] - box[0])
        x = pixels(align(landmarker, photo(path), box))
        gallery.append(network.run(None, {"x": ((x * 255 - 127.5) / 127.5).astype(np.float32)[None]})[0][0])
        for k in range(4):
            turn, grow = rng.uniform(-0.12, 0.12), rng.uniform(0.9, 1.1)
            shift = rng.uniform(-4, 4), rng.uniform(-4, 4)
            probe = align(landmarker, photo(path), box, turn, grow, shift)
            probe = ImageOps.mirror(probe) if k % 2 else probe
            probe = ImageEnhance.Brightness(probe).enhance(rng.uniform(0.6, 1.3))
            probe = ImageEnhance.Contrast(probe).enhance(rng.uniform(0.7, 1.2))
            probe.save(file := io.BytesIO(), "jpeg", quality=40)
            probes.append(pixels(Image.open(file).convert("RGB")))
    x, labels = np.stack(probes), np.arange(len(probes)) // 4
    save(out, source, x=x, truth=labels, texts=np.stack(gallery).astype(np.float32))
    np.savez(out / "probes.npz", image=x, label=labels)


def antispoof(source, out, faces):
    """Squares of 1.5 times the face. The photos are taken to be of people: the truth is 1, real, for all."""
    images = []
    for path, box in list(some(faces, 64, 5))[:100]:
        side = max(box[2] - box[0], box[3] - box[1]) * 1.5
        images.append(pixels(crop(photo(path), *square(box)[:2], side, 128)))
    for name, file in (("antispoof", "best_model.onnx"), ("antispoof-int8", "best_model_quantized.onnx")):
        save(out / name, source / file, x=np.stack(images), truth=np.ones((len(images), 1), np.float32))
        onnx.save(parser.parse_model(HEAD), out / name / "head.onnx")


def ultraface(source, out, faces, rng):
    """Views of 320 by 240 around a face. The prior nearest to the face must see one, those far from every face none."""
    priors = []
    for sizes, step in zip(([10, 16, 24], [32, 48], [64, 96], [128, 192, 256]), (8, 16, 32, 64), strict=True):
        for y in range(-(-240 // step)):
            for x in range(-(-320 // step)):
                priors += [((x + 0.5) * step / 320, (y + 0.5) * step / 240, s / 320, s / 240) for s in sizes]
    priors, image = np.clip(np.array(priors), 0, 1), np.array([320, 240] * 2)
    corners = np.c_[priors[:, :2] - priors[:, 2:] / 2, priors[:, :2] + priors[:, 2:] / 2] * image
    views, truths = [], []
    for path, box in some(faces, 48, 2):
        height = (box[3] - box[1]) * rng.uniform(2.2, 4)
        width = height * 4 / 3
        left = (box[0] + box[2]) / 2 + rng.uniform(-0.2, 0.2) * width - width / 2
        top = (box[1] + box[3]) / 2 + rng.uniform(-0.15, 0.15) * height - height / 2
        view = photo(path).crop((int(left), int(top), int(left + width), int(top + height)))
        views.append(pixels(view.resize((320, 240), BILINEAR)))
        labels, far = -np.ones((len(priors), 2)), np.ones(len(priors), bool)
        corner, scale = np.array([left, top] * 2), np.array([width, height] * 2) / image
        for other in (other for where, other in faces if where == path):
            far &= overlap(corners, (other - corner) / scale) < 0.05
        labels[overlap(corners, (box - corner) / scale).argmax(), 1] = 1
        labels[far, 1] = 0
        truths.append(labels.reshape(-1))
    save(out, source, x=np.stack(views[:60]), truth=np.stack(truths[:60]).astype(np.float32))


# ----------------------------------------------------------------------------------------------------------- objects


def found(answer, grid, stride, anchors):
    """The boxes [k, 4] that a detector's answer [605, 95] shows, the surest first, and their classes."""
    boxes, seen, chances = answer[:, :12].reshape(605, 3, 4), answer[:, 12:15], answer[:, 15:]
    middle, reach = (boxes[..., :2] * 2 - 0.5 + grid) * stride, (boxes[..., 2:] * 2) ** 2 * anchors / 2
    corners, classes = np.concatenate([middle - reach, middle + reach], -1), chances.argmax(1)
    sure = np.where((seen > 0.3) & (chances.max(1, keepdims=True) > 0.3), seen * chances.max(1, keepdims=True), 0)
    kept = []
    for row, anchor in sorted(np.argwhere(sure > 0).tolist(), key=lambda at: -sure[*at]):
        box = corners[row, anchor]
        if all(overlap(box[None], other)[0] < 0.4 or c != classes[row] for other, c in kept):
            kept.append((box, classes[row]))
    return kept


def yolo(source, photos, out):
    """Photos of 352 by 352, and parts of them. The truth is an object that the detector finds. It takes BGR."""
    sides = [(16, 22), (32, 11)]
    cells = [np.stack(np.meshgrid(np.arange(n), np.arange(n)), -1).reshape(-1, 1, 2) for _, n in sides]
    grid = np.concatenate(cells).astype(np.float32)
    stride = np.repeat([float(s) for s, _ in sides], [n * n for _, n in sides]).reshape(-1, 1, 1).astype(np.float32)
    anchors = [12.64, 19.39, 37.88, 51.48, 55.71, 138.31, 126.91, 78.23, 131.57, 214.55, 279.92, 258.87]
    anchors = np.array(anchors, np.float32).reshape(2, 3, 2)[np.repeat([0, 1], [n * n for _, n in sides])]
    network, images, truths = session(source / "model.onnx"), [], []
    for path in photos:
        whole = photo(path)
        w, h = whole.size
        for view in (whole, whole.crop((0, 0, w * 3 // 4, h)), whole.crop((w // 4, 0, w, h))):
            x = np.ascontiguousarray(pixels(view.resize((352, 352), BILINEAR))[::-1])
            for box, c in found(network.run(None, {"input.1": x[None]})[0], grid, stride, anchors):
                images.append(x)
                truths.append(np.r_[box, np.eye(80)[c]])
    save(out, source / "model.onnx", x=np.stack(images[:60]), truth=np.stack(truths[:60]).astype(np.float32))
    head = parser.parse_model(DETECTION)
    for name, values in (("grid", grid - np.float32(0.5)), ("stride", stride), ("anchors", anchors)):
        head.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(head, out / "head.onnx")


# -------------------------------------------------------------------------------------------------------------- text


def printed(photo, fonts, rng):
    """A faded photo with lines of text, and two truths of its pixels: `kernels` for segmentation, `centres` for labels.

    A line's kernel is DB's, shrunk by the ratio 0.4. The band of 3 to 12 pixels around it is background. Other pixels
    do not count. A line's centre has the label 1, and nothing is known of other pixels.
    """
    scale = max(320 / photo.width, 192 / photo.height) * rng.uniform(1, 1.6)
    photo = photo.resize((int(photo.width * scale) + 1, int(photo.height * scale) + 1), Image.Resampling.LANCZOS)
    x, y = rng.integers(0, photo.width - 319), rng.integers(0, photo.height - 191)
    photo = photo.crop((x, y, x + 320, y + 192))
    photo = Image.blend(photo, Image.new("RGB", photo.size, tuple(int(v) for v in rng.integers(0, 255, 3))), 0.5)
    words, draw, centres = TEXT.split(), ImageDraw.Draw(photo), -np.ones((192, 320), np.float32)
    near, ring, kernel = np.zeros((3, 192, 320), bool)
    y = int(rng.integers(6, 30))
    while y < 165:
        size = int(rng.integers(24, 42))
        font = ImageFont.truetype(str(fonts[rng.integers(len(fonts))]), size)
        text = " ".join(words[i] for i in rng.integers(0, len(words), rng.integers(1, 3)))
        x = int(rng.integers(4, 120))
        left, top, right, bottom = draw.textbbox((x, y), text, font=font)
        if right < 316 and bottom < 188:
            dark = np.asarray(photo)[top:bottom, left:right].mean() < 128
            draw.text((x, y), text, font=font, fill=(255,) * 3 if dark else (0,) * 3)
            width, height = right - left, bottom - top
            inset = width * height * (1 - 0.4**2) / (2 * (width + height))
            for area, margin in ((near, 12), (ring, 3)):
                area[max(0, top - margin) : bottom + margin, max(0, left - margin) : right + margin] = True
            rows, columns = ((a + inset, b - inset) for a, b in ((top, bottom), (left, right)))
            kernel[round(rows[0]) : round(rows[1]) + 1, round(columns[0]) : round(columns[1]) + 1] = True
            centres[(top + bottom) // 2, (left + right) // 2] = 1
        y = bottom + int(rng.integers(8, 30))
    kernels = np.where(kernel, 1, np.where(ring | ~near, 255, 0))
    return pixels(photo)[::-1], kernels.reshape(-1).astype(np.float32), centres.reshape(-1)


def ocr(wheel, out, photos, fonts):
    """The text detector as it is, and cut in front of its last Sigmoid. It takes BGR."""
    rng = np.random.default_rng(8)
    made = [printed(photo(photos[k % len(photos)]), fonts, rng) for k in range(40)]
    x, kernels, centres = (np.stack(part) for part in zip(*made, strict=True))
    network = zipfile.ZipFile(wheel).read("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx")
    model = onnx.load_from_string(network)
    (last,) = (node.input[0] for node in model.graph.node if node.output[0] == model.graph.output[0].name)
    save(out / "ocr", network, x=x, truth=centres)
    save(out / "ocr-kernels", cut(model, last), x=x, truth=kernels)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--fonts", default="/usr/share/fonts/truetype/dejavu", help="Debian's fonts-dejavu")
    arguments = arguments.parse_args()
    out, fonts = arguments.folder, sorted(pathlib.Path(arguments.fonts).glob("*.ttf"))
    if not fonts:
        raise SystemExit(f"{arguments.fonts} has no fonts")
    onnxruntime.set_default_logger_severity(3)
    carvana(out / "vnncomp2022_benchmarks" / "benchmarks" / "carvana_unet_2022", out / "carvana")
    rul(out / "vnncomp2022_benchmarks" / "benchmarks" / "collins_rul_cnn", out / "rul")

    people, points = out / "Face-Detection-and-Recognition-System", out / "pytorch_face_landmark"
    detector = out / "Ultra-Light-Fast-Generic-Face-Detector-1MB"
    portraits = sorted(p for p in (people / "database").iterdir() if p.suffix in (".jpg", ".png"))
    groups = sorted((points / "samples" / "12--Group").glob("*.jpg"))
    plain = sorted((detector / "imgs").glob("*.jpg"))
    masked = sorted((detector / "masked_face" / "imgs").glob("*.jp*g"))
    faces = find_faces([*portraits, *groups, *plain, *masked], detector / "models" / "onnx" / "version-RFB-640.onnx")
    bare = [(path, box) for path, box in faces if path not in masked]
    rng = np.random.default_rng(6)
    pfld(points / "onnx" / "pfld.onnx", out / "pfld", bare, rng)
    mobilefacenet(people / "MobileFaceNet.onnx", out / "mobilefacenet", faces, out / "pfld" / "network.onnx", rng)
    antispoof(out / "face-antispoof-onnx" / "models" / "best" / "98.20", out, faces)
    slim = detector / "models" / "onnx" / "version-slim-320.onnx"
    ultraface(slim, out / "ultraface", bare, np.random.default_rng(7))
    wheel = zipfile.ZipFile(next(out.glob("ultralytics-*.whl")))
    shown = [wheel.extract(f"ultralytics/assets/{name}.jpg", out) for name in ("bus", "zidane")]
    detector = out / "yolo-fastestv2-opencv"
    yolo(detector, [*sorted((detector / "img").glob("*.jpg")), *map(pathlib.Path, shown)], out / "yolo")
    ocr(next(out.glob("rapidocr_onnxruntime-1.4.4-*.whl")), out, [*plain, *masked], fonts)


if __name__ == "__main__":
    main()
