/* The training step of one parameter, every product and sum rounding, in the order of docs/numerics.md.

   CPU shape: LANES elements at a time, one item per group; GPU shape: one element, 64 items. Stretches
   (lib/stretch.h) count groups of LANES elements. */
#include "lib/memory.h"
#include "lib/stretch.h"

/* LANES elements, `stride` apart; what lies past `count` counts as zero. */
FUNCTION VALUE load_strided(GLOBAL const REAL *source, INT64 stride, INT64 count) {
  REAL lanes[LANES];
  if (stride == 1) return load_part(source, count);
  for (int i = 0; i < LANES; i++) lanes[i] = i < count ? source[i * stride] : R(0.0);
  return LOAD(lanes);
}

/* sums[t] = sum over the kernels k, ascending from +0.0, of weights[k * kernel_stride + t * tap_stride].

   sums  `taps` elements; an item owns LANES of them at a time */
KERNEL(ITEMS, 1, 1) void column_sums(
    GLOBAL const REAL *RESTRICT weights, GLOBAL REAL *RESTRICT sums, INT64 taps, int stretch, int kernels,
    INT64 kernel_stride, INT64 tap_stride) {
  for (INT64 i = FIRST(stretch); i < END(stretch, (taps + LANES - 1) / LANES); i += ITEMS) {
    INT64 tap = i * LANES;
    VALUE sum = V(0.0);
    for (int k = 0; k < kernels; k++)
      sum += load_strided(weights + k * kernel_stride + tap * tap_stride, tap_stride, taps - tap);
    store_part(sum, sums + tap, taps - tap);
  }
}

/* 0 for a zero of any sign, NaN for NaN. */
FUNCTION VALUE sign_of(VALUE w) {
  VALUE zero_or_nan = SELECT(w, V(0.0), w == V(0.0));
  return SELECT(SELECT(zero_or_nan, V(-1.0), w < V(0.0)), V(1.0), w > V(0.0));
}

/* parameter, accumulator and velocity (the latter two may be null) from their old content and gradient.

   All are seen as rows of `columns` elements, each cut into stretches. sums is null, or has what column_sums gives:
   one element per column, or with sum_of_row one per row. An item owns LANES elements at a time of all of them.

   keep: 1 - l1_vs_l2; lasso: l1_vs_l2 / 2; ortho: factor_ortho / n_kernels; rate: -learning_rate; the others as in
   UpdateRule. With acc_beta 0 the accumulator is not read. */
KERNEL(ITEMS, 1, 1) void update(
    GLOBAL REAL *RESTRICT parameter, GLOBAL const REAL *RESTRICT gradient, GLOBAL REAL *RESTRICT accumulator,
    GLOBAL REAL *RESTRICT velocity, GLOBAL const REAL *RESTRICT sums, INT64 columns, int stretch, int stretches,
    int sum_of_row, REAL keep, REAL lasso, REAL decay, REAL ortho, REAL rate, REAL acc_alpha, REAL acc_beta,
    REAL gd_alpha, REAL gd_beta, REAL moment, int apply) {
  INT64 row = GROUP(0) / stretches, first = (GROUP(0) - row * stretches) * stretch;
  INT64 end = MIN(first + stretch, (columns + LANES - 1) / LANES);
  for (INT64 i = first + ITEM(0); i < end; i += ITEMS) {
    INT64 column = i * LANES, at = row * columns + column, count = columns - column;
    VALUE w = load_part(parameter + at, count);
    VALUE step = load_part(gradient + at, count) + decay * (keep * w + lasso * sign_of(w));
    if (sums) {
      VALUE sum = sum_of_row ? (VALUE)(sums[row]) : load_part(sums + column, count);
      step += ortho * (sum - w);
    }
    step *= rate;
    if (accumulator) {
      VALUE acc = acc_alpha * step;
      if (acc_beta != R(0.0)) acc += acc_beta * load_part(accumulator + at, count);
      store_part(acc, accumulator + at, count);
      step = gd_beta * step + gd_alpha * acc;
    }
    if (velocity) {
      step += moment * load_part(velocity + at, count);
      store_part(step, velocity + at, count);
    }
    if (apply) store_part(w + step, parameter + at, count);
  }
}
