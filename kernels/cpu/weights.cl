/* Gradient of the weights for CPUs: partial[k, tap, c] = sum over images and positions of d[position, k] * x[position + tap, c].

   x        images x x_rows x x_columns, x_width channels per group side by side of which the first `inputs` count
   d        images x rows x columns, `outputs` values per group side by side
   partial  for each chunk of leaves the sum over it, in strides in elements of (chunk, group, k, tap, c)

   One work-group per item. Group (k / ROWS; tap, channel block and group; chunk) owns ROWS kernels by WIDTH channels
   at one tap of one chunk.

   Order: a chain per leaf over images, rows and columns ascending, taps outside the image left out; leaves summed as
   a tree. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/leaves.h"

#define SIZE (ROWS * VECTORS)
#include "lib/tree.h"

#define WIDTH (VECTORS * LANES)
#define DEPTH 34 /* of the stack: chunks of up to 2**16 units of up to 2**16 bands */

/* acc += chain over `count` positions; places[r] is where kernel r lies beside d. */
FUNCTION void chain(VALUE *acc, GLOBAL const REAL *d, int d_step, const INT64 *places, GLOBAL const REAL *x, int x_step, int count) {
  for (int i = 0; i < count; i++) {
    VALUE values[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) values[v] = LOAD(x + v * LANES);
    UNROLL for (int r = 0; r < ROWS; r++) {
      VALUE a = (VALUE)(d[places[r]]);
      UNROLL for (int v = 0; v < VECTORS; v++) acc[r * VECTORS + v] = fma(a, values[v], acc[r * VECTORS + v]);
    }
    d += d_step;
    x += x_step;
  }
}

/* The first position at or after `low` whose tap lies inside: position * step + shift >= 0. */
FUNCTION int first_inside(int low, int step, int shift) { return shift < 0 ? max(low, (-shift + step - 1) / step) : low; }

/* The end of those before `high` whose tap lies inside: position * step + shift < size. */
FUNCTION int end_inside(int high, int step, int shift, int size) {
  return shift >= size ? 0 : min(high, (size - 1 - shift) / step + 1);
}

KERNEL(1, 1, 1) void weight_gradient(
    GLOBAL const REAL *RESTRICT x, GLOBAL const REAL *RESTRICT d, GLOBAL REAL *RESTRICT partial,
    INT64 x_start, INT64 x_image, INT64 x_row, int x_column, int x_rows, int x_columns, int x_width, int inputs,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    INT64 d_start, INT64 d_image, INT64 d_row, int d_column, int images, int rows, int columns, int outputs,
    int leaf_images, int leaf_rows, int chunk_units, int chunk_bands, int first_chunk,
    INT64 out_chunk, INT64 out_group, int out_kernel, int out_tap, int out_channel) {
  int blocks = (inputs + WIDTH - 1) / WIDTH, block = GROUP(1) % blocks;
  int tap = GROUP(1) / blocks % (taps_y * taps_x), group = GROUP(1) / blocks / (taps_y * taps_x);
  int k = GROUP(0) * ROWS, channel = min(block * WIDTH, x_width - WIDTH);
  int shift_y = start_y + tap / taps_x * tap_y, shift_x = start_x + tap % taps_x * tap_x;
  int left = first_inside(0, step_x, shift_x), count = end_inside(columns, step_x, shift_x, x_columns) - left;
  Chunk chunk = chunk_of(first_chunk + GROUP(2), images, rows, leaf_images, leaf_rows, chunk_units, chunk_bands);
  VALUE stack[DEPTH][SIZE];
  INT64 places[ROWS];
  int units = 0;

  for (int r = 0; r < ROWS; r++) places[r] = min(k + r, outputs - 1);
  d += d_start + (INT64)group * outputs + (INT64)left * d_column;
  x += x_start + (INT64)group * x_width + channel + shift_y * x_row + (INT64)(left * step_x + shift_x) * x_column;
  for (int unit = chunk.unit; unit < chunk.unit_end; unit++) {
    int top = units;
    for (int band = chunk.band; band < chunk.band_end; band++) {
      int last = min(rows, (band + 1) * leaf_rows);
      int from = first_inside(band * leaf_rows, step_y, shift_y), end = end_inside(last, step_y, shift_y, x_rows);
      VALUE acc[SIZE];
      UNROLL for (int i = 0; i < SIZE; i++) acc[i] = (VALUE)(0);
      for (int n = unit * leaf_images; n < min(images, (unit + 1) * leaf_images); n++)
        for (int row = from; row < end; row++)
          chain(acc, d + n * d_image + row * d_row, d_column, places, x + n * x_image + row * step_y * x_row, step_x * x_column, count);
      top = push(stack, top, band - chunk.band, acc);
    }
    finish(stack, units, top);
    VALUE node[SIZE];
    for (int i = 0; i < SIZE; i++) node[i] = stack[units][i];
    units = push(stack, units, unit - chunk.unit, node);
  }
  finish(stack, 0, units);

  partial += (first_chunk + GROUP(2)) * out_chunk + group * out_group + (INT64)tap * out_tap;
  for (int r = 0; r < ROWS && k + r < outputs; r++) {
    REAL values[WIDTH];
    for (int v = 0; v < VECTORS; v++) STORE(stack[0][r * VECTORS + v] + R(0.0), values + v * LANES);
    for (int c = block * WIDTH; c < min(inputs, (block + 1) * WIDTH); c++)
      partial[(INT64)(k + r) * out_kernel + (INT64)c * out_channel] = values[c - channel];
  }
}
