// Gaussian noise that is the same bit for bit on every processor: LANES generators side by side, and logarithm, sine
// and cosine as polynomials of fixed order, of which no step is contracted.

#include "walk.h"

// Of a key each lane has a state of its own, by the finaliser of SplitMix64.
static INLINE uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static INLINE uint32_t rotated(uint32_t v, int k) { return (v << k) | (v >> (32 - k)); }

// A state of every lane of xoshiro128++ 1.0 (Blackman & Vigna 2019).
typedef struct { uint32_t a[LANES], b[LANES], c[LANES], d[LANES]; } lanes;

static INLINE uint32_t next(lanes *s, int l) {
    uint32_t a = s->a[l], b = s->b[l], c = s->c[l], d = s->d[l], out = rotated(a + d, 7) + a, t = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    s->a[l] = a;
    s->b[l] = b;
    s->c[l] = c;
    s->d[l] = rotated(d, 11);
    return out;
}

// The natural logarithm of u in (0, 1], by Cephes' polynomial: to 1e-7 of its value.
static INLINE float logarithm(float u) {
    uint32_t b = bits(u), from = b - 0x3f3504f3u; // the mantissa from √½ on
    float e = (float)((int32_t)from >> 23), x = number((from & 0x7fffffu) + 0x3f3504f3u) - 1, z = x * x;
    float y = 7.0376836292e-2f;
    y = y * x - 1.1514610310e-1f;
    y = y * x + 1.1676998740e-1f;
    y = y * x - 1.2420140846e-1f;
    y = y * x + 1.4249322787e-1f;
    y = y * x - 1.6668057665e-1f;
    y = y * x + 2.0000714765e-1f;
    y = y * x - 2.4999993993e-1f;
    y = y * x + 3.3333331174e-1f;
    y = y * x * z + e * -2.12194440e-4f - 0.5f * z;
    return x + y + e * 0.693359375f;
}

// The root of v ≥ 0, by Newton's method from a guess at its inverse. The library's may set errno, which keeps the
// compiler from vector instructions.
static INLINE float root(float v) {
    float y = number(0x5f3759dfu - (bits(v) >> 1)), half = 0.5f * v;
    y = y * (1.5f - half * y * y);
    y = y * (1.5f - half * y * y);
    y = y * (1.5f - half * y * y);
    return v * y;
}

// The bits of a or, where the mask is all ones, of b.
static INLINE uint32_t either(uint32_t mask, uint32_t a, uint32_t b) { return (a & ~mask) | (b & mask); }

// Two normal numbers of two words, by Box and Muller.
static INLINE void pair(uint32_t r, uint32_t t, float *first, float *second) {
    float u = ((float)(int32_t)(r >> 1) + 0.5f) * 0x1p-31f, radius = root(-2 * logarithm(u));
    uint32_t quarter = (t + 0x20000000u) >> 30; // the nearest multiple of a right angle
    float x = (float)(int32_t)(t - (quarter << 30)) * (1.57079632679489661923f * 0x1p-30f), z = x * x;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1;
    uint32_t odd = -(quarter & 1u);
    *first = radius * number(either(odd, bits(c), bits(s)) ^ (((quarter + 1) & 2u) << 30));
    *second = radius * number(either(odd, bits(s), bits(c)) ^ ((quarter & 2u) << 30));
}

VECTOR void vector_noisy(const float *x, float sigma, uint64_t high, uint64_t low, float *out, int n) {
    lanes s;
    for (int l = 0; l < LANES; l++) {
        uint64_t step = (2 * (uint64_t)l + 1) * 0x9e3779b97f4a7c15u, p = mixed(high + step), q = mixed(low + step) | 1;
        s.a[l] = (uint32_t)p;
        s.b[l] = (uint32_t)(p >> 32);
        s.c[l] = (uint32_t)q;
        s.d[l] = (uint32_t)(q >> 32);
    }
    float noise[2 * LANES];
    for (int k = 0; k < n; k += 2 * LANES) {
        for (int l = 0; l < LANES; l++) {
            uint32_t r = next(&s, l), t = next(&s, l);
            pair(r, t, &noise[l], &noise[LANES + l]);
        }
        int end = n - k < 2 * LANES ? n - k : 2 * LANES;
        for (int i = 0; i < end; i++) out[k + i] = x[k + i] + sigma * noise[i];
    }
}
