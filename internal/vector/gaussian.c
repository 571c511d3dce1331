// Gaussian noise that is the same bit for bit on every processor: LANES generators side by side, and logarithm, root,
// sine and cosine as polynomials of fixed order. A product and a sum are rounded once where fused says so, and nowhere
// else. A processor without such an instruction (of before 2013) takes thirty times as long.

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

static INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); } // a·b + c

// The natural logarithm of u in (0, 1], by Cephes' polynomial: to 1e-7 of its value.
static INLINE float logarithm(float u) {
    uint32_t b = bits(u), from = b - 0x3f3504f3u; // the mantissa from √½ on
    float e = (float)((int32_t)from >> 23), x = number((from & 0x7fffffu) + 0x3f3504f3u) - 1;
    float y = fused(7.0376836292e-2f, x, -1.1514610310e-1f);
    y = fused(y, x, 1.1676998740e-1f);
    y = fused(y, x, -1.2420140846e-1f);
    y = fused(y, x, 1.4249322787e-1f);
    y = fused(y, x, -1.6668057665e-1f);
    y = fused(y, x, 2.0000714765e-1f);
    y = fused(y, x, -2.4999993993e-1f);
    y = fused(y, x, 3.3333331174e-1f);
    y = fused(y, x, -0.5f);
    y = fused(y, x * x, x);
    return fused(e, 0.69314718056f, y);
}

// The root of v ≥ 0, by Newton's method from a guess at its inverse. The library's may set errno, which keeps the
// compiler from vector instructions.
static INLINE float root(float v) {
    float y = number(0x5f3759dfu - (bits(v) >> 1)), half = -0.5f * v;
    y *= fused(half * y, y, 1.5f);
    y *= fused(half * y, y, 1.5f);
    y *= fused(half * y, y, 1.5f);
    return v * y;
}

// The bits of a or, where the mask is all ones, of b.
static INLINE float either(uint32_t mask, float a, float b) { return number((bits(a) & ~mask) | (bits(b) & mask)); }

// Two normal numbers of two words, by Box and Muller. The angle x lies within π/4 of 0: a bit of t turns it by π, and
// another one changes the two coordinates over, so that every angle is as likely.
static INLINE void pair(uint32_t r, uint32_t t, float *first, float *second) {
    float u = fused((float)(int32_t)(r >> 1), 0x1p-31f, 0x1p-32f), radius = root(-2 * logarithm(u));
    float x = (float)(int32_t)(t << 2) * (0.785398163397448f * 0x1p-31f), z = x * x;
    float s = fused(-1.9515295891e-4f, z, 8.3321608736e-3f), c = fused(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    s = fused(fused(s, z, -1.6666654611e-1f), z * x, x);
    c = fused(fused(fused(c, z, 4.166664568298827e-2f), z, -0.5f), z, 1);
    c = number(bits(c) ^ (t & SIGN));
    uint32_t over = (uint32_t)((int32_t)(t << 1) >> 31);
    *first = radius * either(over, c, s);
    *second = radius * either(over, s, c);
}

#define ARGUMENTS const float *x, float sigma, uint64_t high, uint64_t low, float *out, int n

static INLINE void noisy(ARGUMENTS) {
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
        for (int i = 0; i < end; i++) out[k + i] = fused(sigma, noise[i], x[k + i]);
    }
}

// The caller chooses the form: VECTOR knows none of AVX2 with fused products, which are a feature of their own, and not
// every compiler's library can tell what the processor has.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void noisy_512(ARGUMENTS) { noisy(x, sigma, high, low, out, n); }
__attribute__((target("avx2,fma"))) static void noisy_256(ARGUMENTS) { noisy(x, sigma, high, low, out, n); }
#endif

void vector_noisy(int bits, ARGUMENTS) {
#if defined(__x86_64__)
    if (bits == 512) noisy_512(x, sigma, high, low, out, n);
    else if (bits == 256) noisy_256(x, sigma, high, low, out, n);
    else
#endif
        noisy(x, sigma, high, low, out, n);
}
