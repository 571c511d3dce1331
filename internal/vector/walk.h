// What the walks of vector.c and shrink.c share.

#ifndef SELFHEAL_WALK_H
#define SELFHEAL_WALK_H

#include "vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// Where the loader can choose by processor, each function exists in several forms.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR
#endif

#define INLINE inline __attribute__((always_inline))

#define LANES 16
#define WIDE (4 * LANES)

static INLINE double total(double *s) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) s[l] += s[l + half];
    return s[0];
}

// EACH runs its body for i = 0 … n−1, in blocks of LANES with l = i mod LANES.
#define EACH(...)                                                        \
    do {                                                                 \
        int even = n - n % LANES;                                        \
        for (int k = 0; k < even; k += LANES)                           \
            for (int l = 0; l < LANES; l++) { int i = k + l; __VA_ARGS__; } \
        for (int i = even; i < n; i++) { int l = i - even; __VA_ARGS__; } \
    } while (0)

static INLINE uint32_t bits(float v) {
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static INLINE float number(uint32_t b) {
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

// v where the mask is all ones, 0 where it is none.
static INLINE double where(int64_t mask, double v) {
    int64_t b;
    memcpy(&b, &v, sizeof b);
    b &= mask;
    memcpy(&v, &b, sizeof v);
    return v;
}

#define SIGN 0x80000000u

static INLINE float magnitude(float v) { return number(bits(v) & ~SIGN); }
static INLINE float less(float a, float b) { return a < b ? a : b; }
static INLINE float more(float a, float b) { return a > b ? a : b; }

// NaN stays NaN.
static INLINE float clamp_unit(float v) {
    v = v < 0 ? 0 : v;
    return v > 1 ? 1 : v;
}

// step·sign(g); 0 where g is 0 or NaN.
static INLINE float along(float g, float step) {
    return g > 0 ? step : g < 0 ? -step : 0;
}

#endif
