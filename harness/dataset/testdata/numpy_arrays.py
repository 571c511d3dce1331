"""Writes the arrays that numpy_test.go reads: python3 numpy_arrays.py

Four images, 3 channels of 2 rows of 5, pixel k of image i = (37 i + 11 k) mod 256, in the
layouts and types that NumPy users save them in.
"""
import numpy as np

n, c, h, w = 4, 3, 2, 5
k = np.arange(c * h * w).reshape(c, h, w)
pixels = np.stack([(37 * i + 11 * k) % 256 for i in range(n)]).astype(np.uint8)
labels = np.array([2, 0, 1, 2])
unit = pixels.astype(np.float32) / np.float32(255)

np.savez("uint8_nchw.npz", x=pixels, y=labels)
np.savez_compressed("uint8_nhwc.npz", x=np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), y=labels.astype(np.uint8))
np.savez("float32_nchw.npz", y=labels.astype(np.int32).reshape(-1, 1), x=unit)
np.savez_compressed("float32_nhwc_big_endian.npz", x=np.ascontiguousarray(unit.transpose(0, 2, 3, 1)).astype(">f4"), y=labels.astype(">i2"))
np.savez("float64_nchw.npz", x=unit.astype(np.float64), y=labels.astype(np.uint64), other=np.zeros(3))
np.savez("gray.npz", x=pixels[:, 0], y=labels)
np.savez("fortran.npz", x=np.asfortranarray(pixels), y=labels)
np.save("float32.npy", unit)
