"""Writes internal/jpeg/testdata: small JPEG files of many kinds and, as PNG, the RGB pixels that Pillow reads from them.

    python3 scripts/goldens/jpeg_samples.py --out internal/jpeg/testdata
"""

import argparse
import pathlib

import numpy as np
from PIL import Image


def picture(width, height, channels, seed):
    """A gradient with edges and a little noise: colours beyond what JPEG can hold are among them."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 150 * np.sin(x / (3 + c) + seed) * np.cos(y / (5 - c) + c) for c in range(channels)]
    noisy = np.stack(waves, -1) + rng.normal(0, 12, (height, width, channels))
    noisy[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, channels)
    return np.clip(noisy, 0, 255).astype(np.uint8).squeeze(-1 if channels == 1 else ())


KINDS = {
    "444-q100": ((33, 21), "RGB", dict(quality=100, subsampling="4:4:4")),
    "444-q30": ((24, 16), "RGB", dict(quality=30, subsampling="4:4:4")),
    "422": ((35, 18), "RGB", dict(quality=75, subsampling="4:2:2")),
    "420": ((37, 35), "RGB", dict(quality=75, subsampling="4:2:0")),
    "420-small": ((3, 3), "RGB", dict(quality=75, subsampling="4:2:0")),
    "420-one": ((1, 1), "RGB", dict(quality=90, subsampling="4:2:0")),
    "420-optimized": ((40, 23), "RGB", dict(quality=92, subsampling="4:2:0", optimize=True)),
    "restart": ((50, 34), "RGB", dict(quality=80, restart_marker_blocks=2)),
    "progressive": ((41, 39), "RGB", dict(quality=85, progressive=True)),
    "progressive-444": ((20, 30), "RGB", dict(quality=97, progressive=True, subsampling="4:4:4")),
    "progressive-restart": ((44, 30), "RGB", dict(quality=60, progressive=True, restart_marker_blocks=3)),
    "gray": ((29, 31), "L", dict(quality=88)),
    "gray-progressive": ((29, 31), "L", dict(quality=50, progressive=True)),
    "rgb": ((19, 22), "RGB", dict(quality=90, keep_rgb=True)),
    "cmyk": ((26, 17), "CMYK", dict(quality=90)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for seed, (name, ((width, height), mode, options)) in enumerate(KINDS.items()):
        file = out / f"{name}.jpg"
        Image.fromarray(picture(width, height, len(mode), seed), mode).save(file, **options)
    # Ways that Pillow does not write are changed in the file: luma of 1 × 2 and 4 × 1, and luma and colours of inks.
    for name, width, height, factor in (("440", 20, 40, 0x12), ("411", 64, 12, 0x41)):
        swap(out / f"{name}.jpg", width, height, factor)
    ycck(out / "cmyk.jpg", out / "ycck.jpg")
    for (width, height), quality in {(37, 35): 75, (50, 20): 25, (16, 45): 7, (32, 32): 92}.items():
        image = Image.fromarray(picture(width, height, 3, quality))
        image.save(out / f"lossy-{quality}.jpg", quality=quality)
        image.save(out / f"lossy-{quality}.source", format="PNG", optimize=True)
    for file in sorted(out.glob("*.jpg")):
        Image.open(file).convert("RGB").save(file.with_suffix(".png"), optimize=True)


def swap(file, width, height, factor):
    """A file of subsampled colours, its blocks in any order: the data are those of another picture, and valid."""
    h, v = factor >> 4, factor & 15
    blocks = {0x12: (2, 1), 0x41: (2, 2)}[factor]
    # The number of blocks of luma in an MCU must stay: h × v of them, whichever way they lie.
    base = picture(8 * blocks[0] * -(-width // (8 * h)), 8 * blocks[1] * -(-height // (8 * v)), 3, factor)
    subsampling = {(2, 1): "4:2:2", (2, 2): "4:2:0"}[blocks]
    Image.fromarray(base).save(file, quality=85, subsampling=subsampling)
    data = bytearray(file.read_bytes())
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    data[frame + 11] = factor
    file.write_bytes(data)


def ycck(source, file):
    """The file of inks with another word on what they are."""
    data = bytearray(source.read_bytes())
    at = data.index(b"Adobe")
    data[at + 11] = 2
    file.write_bytes(data)


if __name__ == "__main__":
    main()
