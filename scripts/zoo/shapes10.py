#!/usr/bin/env python3
"""Draws shapes10, a procedural set of small colour images in ten classes.

Every image is 32x32 RGB and shows one geometric shape, its class, at a random place, size, angle
and colour, on a cluttered background: smooth coloured noise, thin strokes, small blobs, gratings
over both shape and ground, a random light gradient and sensor noise. Shape and ground differ by a
random, often low contrast, so neither colour nor position nor brightness tells the class.

The images are drawn by numpy alone from a seed. They are written as CIFAR-10 binary records:
one label byte, then 3072 bytes in the order channel, row, column. Image i has label i mod 10.

    python3 scripts/zoo/shapes10.py --seed 2 --count 256 --out models/zoo/shapes10/test.bin
"""

import argparse
import pathlib

import numpy as np

SIZE = 32
CLASSES = ("disc", "ring", "square", "frame", "triangle", "cross", "star", "bars", "crescent", "ell")
CHUNK = 500

RADIUS_PIXELS = (7.0, 12.0)
CONTRAST = (0.12, 0.50)
CLUTTER_CONTRAST = (0.05, 0.30)
BACKGROUND_AMPLITUDE = (0.05, 0.16)
GRATING_AMPLITUDE = (0.0, 0.08)
NOISE_SIGMA = (0.01, 0.04)


def box_distance(u, v, half_u, half_v):
    """Signed (Chebyshev) distance to an axis-parallel box centred at the origin."""
    return np.maximum(np.abs(u) - half_u, np.abs(v) - half_v)


def disc(u, v):
    return np.hypot(u, v) - 0.88


def ring(u, v):
    return np.abs(np.hypot(u, v) - 0.72) - 0.2


def square(u, v):
    return box_distance(u, v, 0.78, 0.78)


def frame(u, v):
    return np.abs(box_distance(u, v, 0.66, 0.66)) - 0.18


def triangle(u, v):
    side = np.sqrt(3.0) / 2.0
    return np.maximum(np.maximum(side * u - 0.5 * v, -side * u - 0.5 * v), v) - 0.52


def cross(u, v):
    return np.minimum(box_distance(u, v, 0.95, 0.27), box_distance(u, v, 0.27, 0.95))


def star(u, v):
    """Five-pointed star: fold the plane to one half of one point and measure to its edge."""
    sector = 2.0 * np.pi / 5.0
    folded = np.abs(np.mod(np.arctan2(v, u), sector) - sector / 2.0)
    radius = np.hypot(u, v)
    x, y = radius * np.cos(folded), radius * np.sin(folded)
    inner = 0.45
    tip_x, tip_y = 1.1 * np.cos(sector / 2.0), 1.1 * np.sin(sector / 2.0)
    edge_x, edge_y = tip_x - inner, tip_y
    return (edge_y * (x - inner) - edge_x * y) / np.hypot(edge_x, edge_y)


def bars(u, v):
    return np.maximum(np.abs(u) - 0.9, np.abs(np.abs(v) - 0.52) - 0.22)


def crescent(u, v):
    return np.maximum(np.hypot(u, v) - 0.95, 0.78 - np.hypot(u - 0.5, v))


def ell(u, v):
    return np.minimum(box_distance(u + 0.52, v, 0.25, 0.85), box_distance(u, v - 0.6, 0.77, 0.25))


SHAPES = (disc, ring, square, frame, triangle, cross, star, bars, crescent, ell)


def uniform(rng, bounds, *shape):
    """Uniform float32 samples between the two bounds."""
    return rng.uniform(bounds[0], bounds[1], shape).astype(np.float32)


def pixel_grid():
    """Pixel-centre coordinates x (columns) and y (rows), origin in the image's middle."""
    axis = np.arange(SIZE, dtype=np.float32) - (SIZE - 1) / 2.0
    return axis[None, None, :], axis[None, :, None]


def bilinear_rows(cells):
    """The [SIZE, cells] matrix that stretches `cells` samples to SIZE by linear interpolation."""
    position = np.linspace(0.0, cells - 1.0, SIZE)
    return np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange(cells)[None, :])).astype(np.float32)


def smooth_noise(rng, count, cells):
    """Coloured noise [count, 3, SIZE, SIZE] of unit deviation on a grid of cells x cells."""
    stretch = bilinear_rows(cells)
    noise = rng.standard_normal((count, 3, cells, cells), dtype=np.float32)
    return np.einsum("yi,ncij,xj->ncyx", stretch, noise, stretch, optimize=True)


def contrast_colours(rng, count, bounds):
    """Colour offsets [count, 3, 1, 1] of random direction whose root-mean-square lies in bounds."""
    offset = rng.standard_normal((count, 3), dtype=np.float32)
    offset += 1.5 * rng.standard_normal((count, 1), dtype=np.float32)
    offset /= np.sqrt(np.mean(offset**2, axis=1, keepdims=True))
    return (offset * uniform(rng, bounds, count, 1))[:, :, None, None]


def rotated_grid(rng, count, shift_pixels):
    """Pixel coordinates, shifted and turned at random for each image: two [count, SIZE, SIZE]."""
    grid_x, grid_y = pixel_grid()
    x = grid_x - uniform(rng, (-shift_pixels, shift_pixels), count, 1, 1)
    y = grid_y - uniform(rng, (-shift_pixels, shift_pixels), count, 1, 1)
    angle = uniform(rng, (0.0, 2.0 * np.pi), count, 1, 1)
    return np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x


def coverage(distance_pixels):
    """Share of each pixel that lies inside, from the signed distance in pixels."""
    return np.clip(0.5 - distance_pixels, 0.0, 1.0)


def grating(rng, count):
    """A faint sinusoidal texture of random direction and colour, [count, 3, SIZE, SIZE]."""
    along, _ = rotated_grid(rng, count, 8.0)
    wave = np.sin(along * (2.0 * np.pi / uniform(rng, (3.0, 9.0), count, 1, 1)))
    return contrast_colours(rng, count, GRATING_AMPLITUDE) * wave[:, None]


def background(rng, count):
    """A random colour with a light gradient, smooth noise at three scales and a grating."""
    image = uniform(rng, (0.25, 0.75), count, 3, 1, 1) + np.zeros((1, 1, SIZE, SIZE), np.float32)
    along, _ = rotated_grid(rng, count, 0.0)
    image += contrast_colours(rng, count, (0.0, 0.2)) * (along / SIZE)[:, None]
    for cells, share in ((4, 1.0), (8, 0.7), (16, 0.5)):
        image += share * uniform(rng, BACKGROUND_AMPLITUDE, count, 1, 1, 1) * smooth_noise(rng, count, cells)
    return image + grating(rng, count)


def add_clutter(rng, image, layers):
    """Draw `layers` short strokes or small blobs of random colour into each image, in place."""
    count = len(image)
    for _ in range(layers):
        u, v = rotated_grid(rng, count, 15.0)
        half_length = uniform(rng, (1.0, 8.0), count, 1, 1)
        half_width = uniform(rng, (0.5, 1.6), count, 1, 1)
        mask = coverage(box_distance(u, v, half_length, half_width))[:, None]
        image += mask * contrast_colours(rng, count, CLUTTER_CONTRAST)


def shape_masks(rng, labels):
    """Coverage [count, 1, SIZE, SIZE] of each label's shape at a random place, size and angle."""
    count = len(labels)
    u, v = rotated_grid(rng, count, 4.5)
    radius = uniform(rng, RADIUS_PIXELS, count, 1, 1)
    stretch = uniform(rng, (0.85, 1.15), count, 1, 1)
    u, v = u / (radius * stretch), v / (radius / stretch)
    masks = np.empty((count, SIZE, SIZE), np.float32)
    for label, shape in enumerate(SHAPES):
        chosen = labels == label
        masks[chosen] = coverage(shape(u[chosen], v[chosen]) * radius[chosen])
    return masks[:, None]


def draw_chunk(rng, labels):
    """Images uint8 [count, 3, SIZE, SIZE] of the given labels."""
    count = len(labels)
    image = background(rng, count)
    add_clutter(rng, image, 3)
    paint = contrast_colours(rng, count, CONTRAST) + grating(rng, count)
    image += shape_masks(rng, labels) * paint
    add_clutter(rng, image, 1)
    image += uniform(rng, NOISE_SIGMA, count, 1, 1, 1) * rng.standard_normal(image.shape, dtype=np.float32)
    return np.clip(np.rint(image * 255.0), 0, 255).astype(np.uint8)


def generate(seed, count):
    """Images uint8 [count, 3, 32, 32] and labels uint8 [count], label i being i mod 10."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(count) % len(CLASSES)).astype(np.uint8)
    chunks = [draw_chunk(rng, labels[start:start + CHUNK]) for start in range(0, count, CHUNK)]
    return np.concatenate(chunks), labels


def write_records(path, images, labels):
    """Write CIFAR-10 binary records."""
    records = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(records.astype(np.uint8).tobytes())


def main():
    parser = argparse.ArgumentParser(description="Draw shapes10 images and write CIFAR-10 binary records.")
    parser.add_argument("--seed", type=int, required=True, help="seed of the generator")
    parser.add_argument("--count", type=int, required=True, help="number of images; image i has label i mod 10")
    parser.add_argument("--out", required=True, help="file to write")
    arguments = parser.parse_args()
    write_records(arguments.out, *generate(arguments.seed, arguments.count))


if __name__ == "__main__":
    main()
