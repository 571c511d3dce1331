"""Writes harness/dataset/testdata/levels: small pictures of every kind that PNG, JPEG and WebP files have, and in
levels.json the levels that Pillow reads of them, as RGB and grey, whole and resized by torchvision. It takes Pillow 13,
of which --resize has the order of passes.

    python3 scripts/goldens/picture_samples.py --out harness/dataset/testdata/levels
"""

import argparse
import base64
import json
import pathlib
import struct
import zlib

import numpy as np
import PIL
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

rng = np.random.default_rng(0)


def noise(*shape, below=256):
    return rng.integers(0, below, shape)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def rows(pixels, bits):
    """The rows of a PNG file, each behind a filter of none."""
    pixels = pixels.reshape(len(pixels), -1)
    if bits >= 8:
        return b"".join(b"\0" + row.astype(f">u{bits // 8}").tobytes() for row in pixels)
    spread = (pixels[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    return b"".join(b"\0" + np.packbits(row.reshape(-1).astype(np.uint8)).tobytes() for row in spread)


GREY, RGB, PALETTE, LA, RGBA = 0, 2, 3, 4, 6


def png(kind, bits, pixels, *others, data=None, interlace=0):
    """A PNG file as no encoder need write it; data are its rows where they are not in order."""
    height, width = pixels.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlace)
    body = zlib.compress(data or rows(pixels, bits))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(others) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def adam7(pixels):
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    return b"".join(rows(pixels[y::dy, x::dx], 8) for x, y, dx, dy in passes)


def pngs():
    for kind, name, channels in ((RGB, "rgb", 3), (LA, "la", 2), (RGBA, "rgba", 4)):
        for bits in (8, 16):
            pixels = noise(3, 5, channels, below=1 << bits)
            yield f"{name}{bits}.png", png(kind, bits, pixels)
            if kind == RGB:
                clear = chunk(b"tRNS", struct.pack(">HHH", *pixels[0, 0]))
                yield f"{name}{bits}-transparent.png", png(kind, bits, pixels, clear)
            else:
                pixels[..., -1] = 0
                yield f"{name}{bits}-transparent.png", png(kind, bits, pixels)
    for bits in (1, 2, 4, 8):
        pixels = noise(3, 8, below=1 << bits)
        clear = chunk(b"tRNS", struct.pack(">H", pixels[0, 0]))
        yield f"grey{bits}.png", png(GREY, bits, pixels)
        yield f"grey{bits}-transparent.png", png(GREY, bits, pixels, clear)
        colours = chunk(b"PLTE", noise(3 << bits).astype(np.uint8).tobytes())
        clear = chunk(b"tRNS", noise(1 << bits).astype(np.uint8).tobytes())
        yield f"palette{bits}.png", png(PALETTE, bits, pixels, colours)
        yield f"palette{bits}-transparent.png", png(PALETTE, bits, pixels, colours, clear)
    colours = chunk(b"PLTE", noise(12).astype(np.uint8).tobytes())
    yield "palette-short.png", png(PALETTE, 8, noise(3, 5, below=9), colours)
    pixels = noise(8, 8, 3)
    yield "interlaced.png", png(RGB, 8, pixels, data=adam7(pixels), interlace=1)
    yield "grey16.png", png(GREY, 16, noise(3, 5, below=1 << 16))  # Pillow clips it; it is refused


def picture(*shape):
    return Image.fromarray(noise(*shape).astype(np.uint8))


def write_others(out):
    """What Pillow writes itself."""
    turned = Image.Exif()
    turned[0x112] = 6  # by 90 degrees, which neither Pillow nor torchvision's loader does
    picture(6, 9, 3).save(out / "turned.jpg", exif=turned)
    picture(6, 9).save(out / "grey.jpg")
    picture(6, 9, 3).convert("CMYK").save(out / "cmyk.jpg")
    picture(6, 9, 3).save(out / "first.png", save_all=True, append_images=[picture(6, 9, 3)])
    opaque, other = picture(12, 9, 3), picture(12, 9, 3)
    clear, second = picture(12, 9, 4), picture(12, 9, 4)
    inner = np.zeros((12, 9, 4), np.uint8)
    inner[3:9, 5:8] = noise(6, 3, 4)
    inner = Image.fromarray(inner)
    shown = {"save_all": True, "duration": 100}
    opaque.save(out / "first-lossy.webp", append_images=[other], **shown)
    opaque.save(out / "first-lossless.webp", append_images=[other], lossless=True, **shown)
    clear.save(out / "first-lossy-clear.webp", append_images=[second], **shown)
    clear.save(out / "first-lossless-clear.webp", append_images=[second], lossless=True, exact=True, **shown)
    for name, how in (("lossy", {}), ("lossless", {"lossless": True})):
        shown["background"] = (9, 99, 200, 255)
        inner.save(out / f"first-{name}-inner.webp", append_images=[second], **how, **shown)
    picture(31, 12, 3).save(out / "tall.png")
    picture(30, 15, 3).save(out / "twice.png")  # as many rows go as the other pass would take twice the columns
    picture(12, 31, 3).save(out / "wide.png")


def levels(image, mode):
    pixels = np.asarray(image.convert(mode))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return list(pixels.transpose(2, 0, 1).shape), base64.b64encode(pixels.transpose(2, 0, 1).tobytes()).decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    if int(PIL.__version__.split(".")[0]) < 13:
        parser.error(f"this is Pillow {PIL.__version__}")
    for name, data in pngs():
        (out / name).write_bytes(data)
    write_others(out)
    found = []
    for path in sorted(out.glob("*.*")):
        if path.suffix == ".json" or path.name == "grey16.png":
            continue
        for mode in ("RGB", "L"):
            shape, values = levels(Image.open(path), mode)
            found.append({"file": path.name, "shape": shape, "levels": values})
    for name in ("tall", "twice", "wide"):
        for resize, crop, mode in ((6, 6, "bilinear"), (5, 4, "bicubic"), (14, 9, "bilinear"), (20, 20, "bicubic")):
            steps = Compose([Resize(resize, InterpolationMode(mode)), CenterCrop(crop)])
            for colours in ("RGB", "L"):
                shape, values = levels(steps(Image.open(out / f"{name}.png").convert(colours)), colours)
                by = {"resize": resize, "crop": crop, "interpolation": mode}
                found.append({"file": f"{name}.png", "by": by, "shape": shape, "levels": values})
    lines = ",\n".join(json.dumps(one) for one in found)
    (out / "levels.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
