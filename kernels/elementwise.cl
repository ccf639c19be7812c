/* Element by element, `count` of them, in stretches (lib/stretch.h): each has one owner. */
#include "lib/activation.h"
#include "lib/stretch.h"

/* out[start], ... = +0.0 */
KERNEL(ITEMS, 1, 1) void fill(GLOBAL REAL *RESTRICT out, INT64 start, INT64 count, int stretch) {
  for (INT64 i = FIRST(stretch); i < END(stretch, count); i += ITEMS) out[start + i] = R(0.0);
}

/* out[0], ... = err_output * factor(output) from element `start` of these on: err_output behind the activation whose
   result output is. */
KERNEL(ITEMS, 1, 1) void scale(
    GLOBAL const REAL *RESTRICT err_output, GLOBAL const REAL *RESTRICT output, GLOBAL REAL *RESTRICT out,
    INT64 start, INT64 count, int stretch, int activation) {
  for (INT64 i = FIRST(stretch); i < END(stretch, count); i += ITEMS)
    out[i] = FACTOR(activation, err_output[start + i], output[start + i]);
}
