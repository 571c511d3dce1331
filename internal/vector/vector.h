#ifndef SELFHEAL_VECTOR_H
#define SELFHEAL_VECTOR_H

#include <stdint.h>

// A pair of sums that one walk over the values gives.
typedef struct { double first, second; } sums;

// Two squares of an image, see Windows in windows.go.
typedef struct { int channels, height, width, side, top1, left1, top2, left2; } windows;

double vector_dot_difference(const float *w, const float *a, const float *b, int n);
double vector_dot(const float *a, const float *b, int n);
sums vector_spread(const float *a, const float *b, double by, const float *radius, int n);
double vector_sum1(const float *v, int n);
double vector_sum2(const float *v, int n);
float vector_max(const float *v, int n);
double vector_distance1(const float *a, const float *b, int n);
double vector_distance2(const float *a, const float *b, int n);
double vector_distance_max(const float *a, const float *b, int n);
int vector_changed(const float *a, const float *b, int n);
int vector_count_from(const float *v, float least, int n);
float vector_smallest(const float *v, int k, int n);
int vector_between(const float *v, float from, float to, int32_t *out, int n);
int vector_finite(const float *v, int n);

void vector_difference(const float *a, const float *b, float *out, int n);
void vector_halves(const float *v, float *high, float *low, int n);
void vector_scaled(const float *v, float k, float *out, int n);
void vector_add_scaled(const float *x, const float *delta, float k, float *out, int n);
void vector_add_scaled_clamped(const float *x, const float *delta, float k, float *out, int n);
void vector_toward(const float *x, float *p, float k, int n);
void vector_toward_clamped(const float *x, float *p, float k, int n);

void vector_sign_step(const float *prev, const float *cur, const float *grad, const float *lo, const float *hi, float step, float w, float *next, int n);
void vector_momentum(const float *prev, const float *cur, float w, float *next, int n);
void vector_sparse_step(const float *x, const float *from, const float *grad, float least, float each, float *delta, int n);

void vector_rooms(const float *t, const float *w, float flip, float least, float *rooms, float *sizes, int n);
sums vector_reach(const float *rooms, const float *sizes, double lambda, double one, double per_size, int n);
void vector_moves(const float *w, const float *rooms, const float *sizes, float flip, double lambda, double one, double per_size, float *d, int n);
double vector_cost_from(const float *rooms, const float *sizes, float least, double one, double per_size, int n);
void vector_moves_from(const float *w, const float *rooms, const float *sizes, float flip, float least, float *d, int n);
void vector_combine(const float *x0, const float *d1, const float *d0, float alpha, float eta, float *x1, int n);

double vector_shrinkage(const float *x, const float *y, double radius, float *low, float *high, int n);
void vector_blocks(const float *v, uint64_t *blocks, int n);
void vector_shrink_blocks(const float *x, const float *y, double radius, const uint64_t *blocks, float *low, float *high, float *out, int n);
void vector_shrink(const float *x, const float *y, float alpha, float *out, int n);
void vector_shrink_point(const float *x, const float *y, float alpha, float *point, int n);

void vector_window_sums(const float *v, windows w, int squares, double *first, double *rest);
void vector_window_add(const float *v, windows w, const float *shape, int row, int col, const float *signs, const float *k, int squares, float *out, double *sums);
void vector_window_write(float *v, windows w, const float *values, const double *scales, float *held);
void vector_window_restore(float *v, windows w, const float *held);

void vector_noisy(int bits, const float *x, float sigma, uint64_t high, uint64_t low, float *out, int n);

#endif
