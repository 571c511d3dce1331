// Walks over float32 values that a C compiler turns into vector instructions. See
// vector.go for what they compute.
//
// Results are the same bit for bit on every processor: products and sums are never
// contracted into one rounding, and sums run in LANES parts that are added in a fixed
// order, which leaves the compiler nothing to rearrange.

#include "walk.h"

VECTOR double vector_dot_difference(const float *w, const float *a, const float *b, int n) {
    double s[LANES] = {0};
    EACH(s[l] += (double)w[i] * ((double)a[i] - (double)b[i]));
    return total(s);
}

VECTOR double vector_dot(const float *a, const float *b, int n) {
    double s[LANES] = {0};
    EACH(s[l] += (double)a[i] * (double)b[i]);
    return total(s);
}

VECTOR sums vector_spread(const float *a, const float *b, double by, const float *radius, int n) {
    double s[LANES] = {0}, t[LANES] = {0};
    EACH(double r = (double)radius[i], v = (double)a[i] + by * (double)b[i];
         s[l] += fabs(v) * r; t[l] += copysign(1.0, v) * (double)b[i] * r);
    return (sums){total(s), total(t)};
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

VECTOR void vector_halves(const float *v, float *high, float *low, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t b = bits(v[i]);
        float h = number((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
        low[i] = v[i] - h;
        high[i] = h;
    }
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
