// The projection onto the l1 ball within [0,1]. See vector.go for what the walks compute.

#include "walk.h"

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

// The alpha that leaves radius, 0 where no more is there. The norm that is left falls in alpha and is
// piecewise linear: Newton's steps end at the root as soon as they start on its piece. A step out of the bracket
// of the root is replaced by halving it.
static INLINE double shrinkage(const float *low, const float *high, double radius, int n) {
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

VECTOR double vector_shrinkage(const float *x, const float *y, double radius, float *low, float *high, int n) {
    int even = n - n % LANES, wide = n - n % WIDE, kept = 0;
    for (int k = 0; k < even; k += LANES) {
        while (k < wide && k % WIDE == 0 && !any_but_zero(y + k, WIDE)) k += WIDE; // mostly, on the way to few values
        if (k < even) kept += shrinkable(x + k, y + k, low + kept, high + kept, LANES);
    }
    kept += shrinkable(x + even, y + even, low + kept, high + kept, n - even);
    return shrinkage(low, high, radius, kept);
}

VECTOR void vector_blocks(const float *v, uint64_t *blocks, int n) {
    for (int k = 0; k < n; k += 64 * LANES) blocks[k / (64 * LANES)] = 0;
    for (int k = 0; k < n; k += LANES) {
        uint64_t any = any_but_zero(v + k, k + LANES <= n ? LANES : n - k) != 0;
        blocks[k / (64 * LANES)] |= any << k / LANES % 64;
    }
}

// BLOCKS runs its body for each block of LANES values, or fewer at the end, that is marked: width values from k on.
#define BLOCKS(...)                                                                    \
    for (int word = 0; word * 64 * LANES < n; word++)                                  \
        for (uint64_t rest = blocks[word]; rest; rest &= rest - 1) {                   \
            int k = (word * 64 + __builtin_ctzll(rest)) * LANES;                       \
            if (k + LANES <= n) { const int width = LANES; __VA_ARGS__; }              \
            else { const int width = n - k; __VA_ARGS__; }                             \
        }

VECTOR void vector_shrink_blocks(const float *x, const float *y, double radius, const uint64_t *blocks, float *low, float *high, float *out, int n) {
    int kept = 0;
    // Of a hundred images in turn none is in the core's cache: all of this one is fetched at once.
    BLOCKS((void)width; __builtin_prefetch(x + k); __builtin_prefetch(y + k); __builtin_prefetch(out + k, 1))
    BLOCKS(kept += shrinkable(x + k, y + k, low + kept, high + kept, width))
    float alpha = (float)shrinkage(low, high, radius, kept);
    BLOCKS(for (int i = k; i < k + width; i++) out[i] = shrunk(x[i], y[i], x[i] + y[i], alpha))
}

VECTOR void vector_shrink(const float *x, const float *y, float alpha, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = shrunk(x[i], y[i], x[i] + y[i], alpha);
}

VECTOR void vector_shrink_point(const float *x, const float *y, float alpha, float *point, int n) {
    for (int i = 0; i < n; i++) point[i] = shrunk(x[i], y[i], point[i], alpha);
}
