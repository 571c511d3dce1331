// Walks over float32 values that a C compiler turns into vector instructions. See
// vector.go for what they compute.
//
// Results are the same bit for bit on every processor: products and sums are never
// contracted into one rounding, and sums run in LANES parts that are added in a fixed
// order, which leaves the compiler nothing to rearrange.

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

VECTOR double vector_dot_difference(const float *w, const float *a, const float *b, int n) {
    double s[LANES] = {0};
    EACH(s[l] += (double)w[i] * ((double)a[i] - (double)b[i]));
    return total(s);
}

VECTOR double vector_sum1(const float *v, int n) {
    double s[LANES] = {0};
    EACH(s[l] += (double)magnitude(v[i]));
    return total(s);
}

VECTOR double vector_sum2(const float *v, int n) {
    double s[LANES] = {0};
    EACH(s[l] += (double)v[i] * (double)v[i]);
    return total(s);
}

// Sizes are ordered like their bits, and NaN above them all.
VECTOR float vector_max(const float *v, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t b = bits(v[i]) & ~SIGN;
        most = b > most ? b : most;
    }
    return number(most);
}

VECTOR double vector_distance1(const float *a, const float *b, int n) {
    double s[LANES] = {0};
    EACH(double d = (double)a[i] - (double)b[i]; s[l] += d < 0 ? -d : d);
    return total(s);
}

VECTOR double vector_distance2(const float *a, const float *b, int n) {
    double s[LANES] = {0};
    EACH(double d = (double)a[i] - (double)b[i]; s[l] += d * d);
    return total(s);
}

VECTOR double vector_distance_max(const float *a, const float *b, int n) {
    uint64_t most = 0;
    for (int i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        uint64_t b;
        memcpy(&b, &d, sizeof b);
        b &= INT64_MAX;
        most = b > most ? b : most;
    }
    double d;
    memcpy(&d, &most, sizeof d);
    return d;
}

VECTOR int vector_changed(const float *a, const float *b, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) count += a[i] != b[i];
    return count;
}

VECTOR int vector_count_from(const float *v, float least, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) count += magnitude(v[i]) >= least && v[i] != 0;
    return count;
}

// Sizes are ordered like their bits: a number between two bounds halves what is left between them,
// until as many sizes lie up to it as there are up to the one looked for.
VECTOR float vector_smallest(const float *v, int k, int n) {
    int32_t low = 0, high = INT32_MAX;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int count = 0;
        for (int i = 0; i < n; i++) count += (int32_t)(bits(v[i]) & ~SIGN) <= middle;
        if (count == k + 1) {
            int32_t most = 0;
            for (int i = 0; i < n; i++) {
                int32_t b = bits(v[i]) & ~SIGN;
                most = b <= middle && b > most ? b : most;
            }
            return number(most);
        }
        if (count > k) high = middle;
        else low = middle + 1;
    }
    return number(low);
}

// Blocks without any such value are passed over at once; in the others every index is
// written, and kept where the count then moves on, as no processor foresees which.
VECTOR int vector_between(const float *v, float from, float to, int32_t *out, int n) {
    uint32_t low = bits(from), width = bits(to) - low;
    int count = 0;
    for (int k = 0; k < n; k += LANES) {
        int end = k + LANES < n ? k + LANES : n;
        uint32_t any = 0;
        for (int i = k; i < end; i++) any |= (bits(v[i]) & ~SIGN) - low < width;
        if (!any) continue;
        for (int i = k; i < end; i++) {
            out[count] = i;
            count += (bits(v[i]) & ~SIGN) - low < width;
        }
    }
    return count;
}

VECTOR int vector_finite(const float *v, int n) {
    uint32_t carried = 0;
    for (int i = 0; i < n; i++) carried |= (bits(v[i]) & 0x7f800000u) + 0x00800000u; // an exponent of all ones carries
    return !(carried & SIGN);
}

VECTOR void vector_difference(const float *a, const float *b, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = a[i] - b[i];
}

VECTOR void vector_scaled(const float *v, float k, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = v[i] * k;
}

VECTOR void vector_add_scaled(const float *x, const float *delta, float k, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = x[i] + delta[i] * k;
}

VECTOR void vector_add_scaled_clamped(const float *x, const float *delta, float k, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = clamp_unit(x[i] + delta[i] * k);
}

VECTOR void vector_toward(const float *x, float *p, float k, int n) {
    for (int i = 0; i < n; i++) p[i] = x[i] + (p[i] - x[i]) * k;
}

VECTOR void vector_toward_clamped(const float *x, float *p, float k, int n) {
    for (int i = 0; i < n; i++) p[i] = clamp_unit(x[i] + (p[i] - x[i]) * k);
}

VECTOR void vector_sign_step(const float *prev, const float *cur, const float *grad, const float *lo, const float *hi, float step, float w, float *next, int n) {
    for (int i = 0; i < n; i++) {
        float c = cur[i];
        float z = less(more(c + along(grad[i], step), lo[i]), hi[i]);
        z = c + (z - c) * w + (c - prev[i]) * (1 - w);
        next[i] = less(more(z, lo[i]), hi[i]);
    }
}

VECTOR void vector_momentum(const float *prev, const float *cur, float w, float *next, int n) {
    for (int i = 0; i < n; i++) next[i] = cur[i] + (next[i] - cur[i]) * w + (cur[i] - prev[i]) * (1 - w);
}

VECTOR void vector_sparse_step(const float *x, const float *from, const float *grad, float least, float each, float *delta, int n) {
    for (int i = 0; i < n; i++) delta[i] = from[i] + along(grad[i], magnitude(grad[i]) >= least ? each : 0) - x[i];
}

VECTOR void vector_rooms(const float *t, const float *w, float flip, float least, float *rooms, float *sizes, int n) {
    for (int i = 0; i < n; i++) {
        float a = magnitude(w[i]), towards1 = 1 - t[i];
        rooms[i] = w[i] * flip < 0 ? towards1 : t[i];
        sizes[i] = a <= least ? 0 : a;
    }
}

// Where λ has not come to a coordinate's room yet, it adds to the slope, and
// otherwise all it can. The pace is one + per_size·size.
VECTOR sums vector_reach(const float *rooms, const float *sizes, double lambda, double one, double per_size, int n) {
    double slope[LANES] = {0}, fixed[LANES] = {0};
    EACH(double a = sizes[i]; double r = rooms[i]; double pace = one + a * per_size; int64_t open = -(int64_t)(r > lambda * pace);
         slope[l] += where(open, a * pace); fixed[l] += where(~open, a * r));
    return (sums){total(slope), total(fixed)};
}

// A move of that size, against w·flip.
static INLINE float against(float w, float flip, float size) {
    return number(bits(size) | (~bits(w * flip) & SIGN));
}

VECTOR void vector_moves(const float *w, const float *rooms, const float *sizes, float flip, double lambda, double one, double per_size, float *d, int n) {
    for (int i = 0; i < n; i++) {
        float move = less((float)(lambda * (one + (double)sizes[i] * per_size)), rooms[i]);
        d[i] = against(w[i], flip, sizes[i] == 0 ? 0 : move);
    }
}

VECTOR double vector_cost_from(const float *rooms, const float *sizes, float least, double one, double per_size, int n) {
    double s[LANES] = {0};
    EACH(double cost = rooms[i] * (one + (double)sizes[i] * per_size); s[l] += where(-(int64_t)(sizes[i] >= least), cost));
    return total(s);
}

VECTOR void vector_moves_from(const float *w, const float *rooms, const float *sizes, float flip, float least, float *d, int n) {
    for (int i = 0; i < n; i++) {
        float move = against(w[i], flip, rooms[i]);
        d[i] = sizes[i] >= least ? move : 0;
    }
}

VECTOR void vector_combine(const float *x0, const float *d1, const float *d0, float alpha, float eta, float *x1, int n) {
    for (int i = 0; i < n; i++) {
        float a = (x1[i] + eta * d1[i]) * (1 - alpha);
        float b = (x0[i] + d0[i] * eta) * alpha;
        x1[i] = clamp_unit(a + b);
    }
}

// How far x + y lies outside [0,1].
static INLINE float overshoot(float x, float y) {
    return more(more(y - (1 - x), -(x + y)), 0);
}

// The point x + y, or a rounding of it, moved towards x by clamp(alpha, overshoot, |y|).
static INLINE float shrunk(float x, float y, float point, float alpha) {
    float move = less(more(overshoot(x, y), alpha), magnitude(y));
    return clamp_unit(point - number(bits(move) | (bits(y) & SIGN)));
}

static INLINE uint32_t any_but_zero(const float *v, int n) {
    uint32_t any = 0;
    for (int i = 0; i < n; i++) any |= bits(v[i]) & ~SIGN;
    return any;
}

// The values of a block that are not 0, infinite or NaN, as pairs of what clamp(alpha, low, high) in shrunk can be.
static INLINE int shrinkable(const float *x, const float *y, float *low, float *high, int n) {
    if (!any_but_zero(y, n)) return 0;
    float l[LANES], h[LANES];
    for (int i = 0; i < n; i++) {
        h[i] = magnitude(y[i]);
        l[i] = less(overshoot(x[i], y[i]), h[i]);
    }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        low[kept] = l[i];
        high[kept] = h[i];
        kept += bits(h[i]) - 1 < bits(INFINITY) - 1;
    }
    return kept;
}

// Where alpha lies between low and high, it takes all of itself from high, and otherwise
// low if that is more: fixed − slope·alpha is left of them all.
static INLINE sums left(const float *low, const float *high, float alpha, int n) {
    double fixed[LANES] = {0};
    int slope[LANES] = {0}, moving = 0;
    EACH(int32_t a = -(low[i] > alpha); int32_t b = -(high[i] > alpha);
         fixed[l] += (double)number(bits(high[i]) & b) - (double)number(bits(low[i]) & a); slope[l] += a - b);
    for (int l = 0; l < LANES; l++) moving += slope[l];
    return (sums){total(fixed), moving};
}

// The largest float up to v, which is 0 or more: other floats compare with it as with v.
static INLINE float rounded_down(double v) {
    float f = (float)v;
    return f > v ? number(bits(f) - 1) : f;
}

// The norm that is left falls in alpha and is piecewise linear: Newton's steps end at the root as
// soon as they start on its piece. A step out of the bracket of the root is replaced by halving it.
VECTOR double vector_shrinkage(const float *x, const float *y, double radius, float *low, float *high, int n) {
    int even = n - n % LANES, wide = n - n % WIDE, kept = 0;
    for (int k = 0; k < even; k += LANES) {
        while (k < wide && k % WIDE == 0 && !any_but_zero(y + k, WIDE)) k += WIDE; // mostly, on the way to few values
        if (k < even) kept += shrinkable(x + k, y + k, low + kept, high + kept, LANES);
    }
    n = kept + shrinkable(x + even, y + even, low + kept, high + kept, n - even);
    double from = 0, to = INFINITY, alpha = 0;
    for (int round = 0; round < 1100; round++) {
        sums s = left(low, high, rounded_down(alpha), n);
        double norm = s.first - s.second * alpha;
        if (round == 0 && !(norm > radius)) return 0;
        double next = (s.first - radius) / s.second;
        if (next == alpha) break;
        if (norm > radius) from = alpha;
        else to = alpha;
        if (!(next > from && next < to)) {
            if (to == INFINITY) to = vector_max(high, n);
            next = from + (to - from) / 2;
            if (!(next > from && next < to)) break;
        }
        alpha = next;
    }
    return alpha;
}

VECTOR void vector_shrink(const float *x, const float *y, float alpha, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = shrunk(x[i], y[i], x[i] + y[i], alpha);
}

VECTOR void vector_shrink_point(const float *x, const float *y, float alpha, float *point, int n) {
    for (int i = 0; i < n; i++) point[i] = shrunk(x[i], y[i], point[i], alpha);
}
