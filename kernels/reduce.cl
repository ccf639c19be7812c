/* Sums in the order of docs/numerics.md: gradients of a bias, and the end of the tree over partial sums.

   CPU shape: LANES elements are summed side by side, one item per group. GPU shape: one element, 64 items. */
#include "prelude/common.h"
#include "lib/leaves.h"
#include "lib/memory.h"

#if LANES == 1
#define ITEMS 64
#else
#define ITEMS 1
#endif

#define SIZE 1
#include "lib/tree.h"

#define DEPTH 66 /* of a stack: lists of up to 2**32 nodes in lists of up to 2**32 */

/* partial[chunk, k] = sum of d[position, k] over the chunk's leaves.

   d        images x rows x columns x outputs, strides in elements
   partial  chunks x outputs

   Item (k / LANES) of work-group (., chunk) owns its channels of one chunk. Order: s = s + d per leaf, then the tree. */
KERNEL(ITEMS, 1, 1) void bias_gradient(
    GLOBAL const REAL *RESTRICT d, GLOBAL REAL *RESTRICT partial,
    INT64 d_start, INT64 d_image, INT64 d_row, int d_column, int images, int rows, int columns, int outputs,
    int leaf_images, int leaf_rows, int chunk_units, int chunk_bands, int first_chunk) {
  int k = (GROUP(0) * ITEMS + ITEM(0)) * LANES, number = first_chunk + GROUP(1), units = 0;
  Chunk chunk = chunk_of(number, images, rows, leaf_images, leaf_rows, chunk_units, chunk_bands);
  VALUE stack[DEPTH][SIZE];
  if (k >= outputs) return;
  for (int unit = chunk.unit; unit < chunk.unit_end; unit++) {
    int top = units;
    for (int band = chunk.band; band < chunk.band_end; band++) {
      int row_end = rows - band * leaf_rows < leaf_rows ? rows : (band + 1) * leaf_rows;
      VALUE sum[1];
      sum[0] = (VALUE)(0);
      for (int n = unit * leaf_images; n < images && n < (unit + 1) * leaf_images; n++)
        for (int row = band * leaf_rows; row < row_end; row++) {
          GLOBAL const REAL *from = d + d_start + n * d_image + row * d_row + k;
          for (int column = 0; column < columns; column++) sum[0] += load_part(from + (INT64)column * d_column, outputs - k);
        }
      top = push(stack, top, band - chunk.band, sum);
    }
    finish(stack, units, top);
    VALUE node[1];
    node[0] = stack[units][0];
    units = push(stack, units, unit - chunk.unit, node);
  }
  finish(stack, 0, units);
  store_part(stack[0][0] + R(0.0), partial + (INT64)number * outputs + k, outputs - k);
}

/* out[e] = tree over the units of the trees over their parts of partial[unit, part, e].

   partial  units x parts x size;  out  size

   An item owns LANES elements of out. */
KERNEL(ITEMS, 1, 1) void tree(GLOBAL const REAL *RESTRICT partial, GLOBAL REAL *RESTRICT out, int units, int parts, INT64 size) {
  INT64 e = ((INT64)GROUP(0) * ITEMS + ITEM(0)) * LANES;
  VALUE stack[DEPTH][SIZE];
  int done = 0;
  if (e >= size) return;
  for (int unit = 0; unit < units; unit++) {
    int top = done;
    for (int part = 0; part < parts; part++) {
      VALUE node[1];
      node[0] = load_part(partial + ((INT64)unit * parts + part) * size + e, size - e);
      top = push(stack, top, part, node);
    }
    finish(stack, done, top);
    VALUE node[1];
    node[0] = stack[done][0];
    done = push(stack, done, unit, node);
  }
  finish(stack, 0, done);
  store_part(stack[0][0] + R(0.0), out + e, size - e);
}
