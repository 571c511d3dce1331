// Walks over two windows of an image [C H W], the same in every channel. Sums run in the order of the values.

#include "vector.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static inline double power(float v, int squares) {
    double d = v;
    return squares ? d * d : d < 0 ? -d : d;
}

static inline double powers(const float *v, int n, int squares, double sum) {
    for (int i = 0; i < n; i++) sum += power(v[i], squares);
    return sum;
}

static inline int within(int v, int least, int most) { return v < least ? least : v > most ? most : v; }

void vector_window_sums(const float *v, windows w, int squares, double *first, double *rest) {
    for (int c = 0; c < w.channels; c++, v += w.height * w.width) {
        double a = 0, b = 0;
        for (int i = 0; i < w.side; i++) {
            a = powers(v + (w.top1 + i) * w.width + w.left1, w.side, squares, a);
            const float *row = v + (w.top2 + i) * w.width;
            int end = w.left2 + w.side, skip_from = end, skip_to = end;
            if (w.top2 + i >= w.top1 && w.top2 + i < w.top1 + w.side) {
                skip_from = within(w.left1, w.left2, end);
                skip_to = within(w.left1 + w.side, skip_from, end);
            }
            b = powers(row + w.left2, skip_from - w.left2, squares, b);
            b = powers(row + skip_to, end - skip_to, squares, b);
        }
        first[c] = a;
        rest[c] = b;
    }
}

void vector_window_add(const float *v, windows w, const float *shape, int row, int col, const float *signs, const float *k, int squares, float *out, double *sums) {
    for (int c = 0; c < w.channels; c++, v += w.height * w.width) {
        double sum = 0;
        for (int i = 0; i < w.side; i++) {
            const float *from = v + (w.top1 + i) * w.width + w.left1;
            for (int j = 0; j < w.side; j++, out++) {
                *out = signs[c] * shape[i * row + j * col] + from[j] * k[c];
                sum += power(*out, squares);
            }
        }
        sums[c] = sum;
    }
}

void vector_window_write(float *v, windows w, const float *values, const double *scales, float *held) {
    for (int c = 0; c < w.channels; c++, v += w.height * w.width) {
        float *one = v + w.top1 * w.width + w.left1, *two = v + w.top2 * w.width + w.left2;
        for (int i = 0; i < w.side; i++)
            for (int j = 0; j < w.side; j++) *held++ = one[i * w.width + j];
        for (int i = 0; i < w.side; i++)
            for (int j = 0; j < w.side; j++) {
                *held++ = two[i * w.width + j];
                two[i * w.width + j] = 0;
            }
        for (int i = 0; i < w.side; i++)
            for (int j = 0; j < w.side; j++) one[i * w.width + j] = (float)((double)*values++ * scales[c]);
    }
}

void vector_window_restore(float *v, windows w, const float *held) {
    for (int c = 0; c < w.channels; c++, v += w.height * w.width) {
        float *one = v + w.top1 * w.width + w.left1, *two = v + w.top2 * w.width + w.left2;
        for (int i = 0; i < w.side; i++)
            for (int j = 0; j < w.side; j++) one[i * w.width + j] = *held++;
        for (int i = 0; i < w.side; i++)
            for (int j = 0; j < w.side; j++) two[i * w.width + j] = *held++;
    }
}
