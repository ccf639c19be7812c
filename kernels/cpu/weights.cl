/* Gradient of the weights for CPUs: partial[k, tap, c] = sum over images and positions of d[position, k] * x[position + tap, c].

   x        images x x_rows x x_columns, x_width channels per group side by side of which the first `inputs` count
   d        images x rows x columns, `outputs` values per group side by side
   partial  for each chunk of leaves the sum over it, in strides in elements of (chunk, group, k, tap, c)

   One item per work-group. A part is a block of WIDTH channels at one tap. Group (., chunk), the first counted over
   stripes of kernels, PARTS parts and groups, owns TILES tiles of ROWS kernels by WIDTH channels for PARTS parts, over one
   chunk. It copies POSITIONS of a leaf at once: their part of d once, of x once per part, so that the tiles pass over
   memory without gaps that stays in the cache.

   Order: a chain per leaf over images, rows and columns ascending; leaves summed as a tree. What taps see outside
   the image are zeros. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/leaves.h"
#include "lib/place.h"

#define SIZE (ROWS * VECTORS)
#include "lib/tree.h"

#define WIDTH (VECTORS * LANES)
#define POSITIONS 128 /* that are copied at once: copies stay in the first cache */
#define DEPTH 12 /* of a stack: chunks of up to 2**10 leaves */

/* Positions of a leaf in order; `column` of `row` of `image` is the next one. */
typedef struct {
  int image, row, column;
} Position;

/* Where x and d lie and the window that moves over x. */
typedef struct {
  INT64 x_image, x_row, d_image, d_row;
  int x_column, x_rows, x_columns, step_y, step_x, d_column, columns;
} Layout;

/* The next row of a leaf whose images are cut to the rows before row_end. */
FUNCTION Position next_row(Position p, int row_first, int row_end) {
  p.column = 0;
  if (++p.row == row_end) p.row = row_first, p.image++;
  return p;
}

/* copy[tile][i][r] = d[position i, tile * ROWS + r] for `count` positions; `kernels` of them are there. */
FUNCTION void copy_errors(REAL (*copy)[POSITIONS][ROWS], GLOBAL const REAL *d, const Layout *at, Position p, int row_first, int row_end, int count, int tiles, int kernels) {
  for (int i = 0; i < count; p = next_row(p, row_first, row_end)) {
    GLOBAL const REAL *from = d + p.image * at->d_image + p.row * at->d_row + (INT64)p.column * at->d_column;
    for (int end = min(count, i + at->columns - p.column); i < end; i++, from += at->d_column) {
      for (int t = 0; t < min(tiles, kernels / ROWS); t++) JOIN(vstore, ROWS)(JOIN(vload, ROWS)(t, from), 0, copy[t][i]);
      if (kernels < tiles * ROWS)
        for (int r = 0, last = tiles - 1; r < ROWS; r++)
          copy[last][i][r] = last * ROWS + r < kernels ? from[last * ROWS + r] : R(0.0);
    }
  }
}

/* copy[i] = what the tap shifted by (shift_y, shift_x) sees at position i. */
FUNCTION void copy_inputs(VALUE (*copy)[VECTORS], GLOBAL const REAL *x, const Layout *at, Position p, int row_first, int row_end, int count, int shift_y, int shift_x) {
  int left = shift_x < 0 ? (-shift_x + at->step_x - 1) / at->step_x : 0;
  int right = shift_x >= at->x_columns ? 0 : (at->x_columns - 1 - shift_x) / at->step_x + 1;
  for (int i = 0; i < count; p = next_row(p, row_first, row_end)) {
    int y = p.row * at->step_y + shift_y, end = min(at->columns, p.column + count - i);
    int from = max(p.column, left), to = y >= 0 && y < at->x_rows ? min(end, right) : 0;
    GLOBAL const REAL *source = x + p.image * at->x_image + y * at->x_row + (INT64)(from * at->step_x + shift_x) * at->x_column;
    INT64 step = (INT64)at->step_x * at->x_column;
    VALUE(*target)[VECTORS] = copy + i - p.column;
    for (int column = p.column; column < min(from, end); column++)
      UNROLL for (int v = 0; v < VECTORS; v++) target[column][v] = (VALUE)(0);
    for (int column = from; column < to; column++, source += step)
      UNROLL for (int v = 0; v < VECTORS; v++) target[column][v] = LOAD(source + v * LANES);
    for (int column = max(from, to); column < end; column++)
      UNROLL for (int v = 0; v < VECTORS; v++) target[column][v] = (VALUE)(0);
    i += end - p.column;
  }
}

/* acc += chain over `count` positions. */
FUNCTION void chain(VALUE *acc, const REAL (*d)[ROWS], const VALUE (*x)[VECTORS], int count) {
  VALUE sums[SIZE];
  UNROLL for (int i = 0; i < SIZE; i++) sums[i] = acc[i];
  for (int i = 0; i < count; i++)
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < VECTORS; v++) sums[r * VECTORS + v] = fma((VALUE)(d[i][r]), x[i][v], sums[r * VECTORS + v]);
  UNROLL for (int i = 0; i < SIZE; i++) acc[i] = sums[i];
}

KERNEL(1, 1, 1) void weight_gradient(
    GLOBAL const REAL *RESTRICT x, GLOBAL const REAL *RESTRICT d, GLOBAL REAL *RESTRICT partial,
    INT64 x_start, INT64 x_image, INT64 x_row, int x_column, int x_rows, int x_columns, int x_width, int inputs,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    INT64 d_start, INT64 d_image, INT64 d_row, int d_column, int images, int rows, int columns, int outputs,
    int leaf_images, int leaf_rows, int chunk_units, int chunk_bands, int first_chunk,
    INT64 out_chunk, INT64 out_group, int out_kernel, int out_tap, int out_channel) {
  int blocks = (inputs + WIDTH - 1) / WIDTH, all_parts = taps_y * taps_x * blocks;
  Place place = place_of(GROUP(0), (outputs + ROWS * TILES - 1) / (ROWS * TILES), (all_parts + PARTS - 1) / PARTS);
  int first = place.inner * ROWS * TILES, tiles = min(TILES, (outputs - first + ROWS - 1) / ROWS);
  int part_first = place.middle * PARTS, parts = min(PARTS, all_parts - part_first), group = place.outer;
  Chunk chunk = chunk_of(first_chunk + GROUP(1), images, rows, leaf_images, leaf_rows, chunk_units, chunk_bands);
  Layout at = {x_image, x_row, d_image, d_row, x_column, x_rows, x_columns, step_y, step_x, d_column, columns};
  VALUE stacks[PARTS][TILES][DEPTH][SIZE], sums[PARTS][TILES][SIZE], inputs_here[POSITIONS][VECTORS];
  REAL errors_here[TILES][POSITIONS][ROWS];
  int units = 0, single = chunk.band_end - chunk.band == 1; /* a unit of one leaf is that leaf */

  d += d_start + (INT64)group * outputs + first;
  x += x_start + (INT64)group * x_width;
  for (int unit = chunk.unit; unit < chunk.unit_end; unit++) {
    int top = units, after = units;
    int n_first = unit * leaf_images, n_count = min(leaf_images, images - n_first);
    for (int band = chunk.band; band < chunk.band_end; band++) {
      int row_first = band * leaf_rows, row_end = min(rows, row_first + leaf_rows);
      int count = n_count * (row_end - row_first) * columns;
      for (int part = 0; part < parts; part++)
        for (int t = 0; t < tiles; t++)
          UNROLL for (int i = 0; i < SIZE; i++) sums[part][t][i] = (VALUE)(0);
      for (int done = 0; done < count; done += POSITIONS) {
        int some = min(POSITIONS, count - done);
        Place at_once = place_of(done, columns, row_end - row_first);
        Position p = {n_first + at_once.outer, row_first + at_once.middle, at_once.inner};
        copy_errors(errors_here, d, &at, p, row_first, row_end, some, tiles, outputs - first);
        for (int part = 0; part < parts; part++) {
          Place from = place_of(part_first + part, blocks, taps_x);
          int channel = min(from.inner * WIDTH, x_width - WIDTH);
          int shift_y = start_y + from.outer * tap_y, shift_x = start_x + from.middle * tap_x;
          copy_inputs(inputs_here, x + channel, &at, p, row_first, row_end, some, shift_y, shift_x);
          for (int t = 0; t < tiles; t++) chain(sums[part][t], errors_here[t], inputs_here, some);
        }
      }
      for (int part = 0; part < parts; part++)
        for (int t = 0; t < tiles; t++) after = push(stacks[part][t], top, single ? unit - chunk.unit : band - chunk.band, sums[part][t]);
      top = after;
    }
    for (int part = 0; part < parts && !single; part++)
      for (int t = 0; t < tiles; t++) {
        VALUE node[SIZE];
        finish(stacks[part][t], units, top);
        for (int i = 0; i < SIZE; i++) node[i] = stacks[part][t][units][i];
        after = push(stacks[part][t], units, unit - chunk.unit, node);
      }
    units = after;
  }

  partial += (first_chunk + GROUP(1)) * out_chunk + group * out_group;
  for (int part = 0; part < parts; part++) {
    int tap = (part_first + part) / blocks, start = (part_first + part - tap * blocks) * WIDTH;
    int channel = min(start, x_width - WIDTH);
    for (int t = 0; t < tiles; t++) {
      finish(stacks[part][t], 0, units);
      for (int r = 0; r < ROWS && first + t * ROWS + r < outputs; r++) {
        GLOBAL REAL *to = partial + (INT64)(first + t * ROWS + r) * out_kernel + (INT64)tap * out_tap;
        REAL values[WIDTH];
        for (int v = 0; v < VECTORS; v++) STORE(stacks[part][t][0][r * VECTORS + v] + R(0.0), values + v * LANES);
        if (out_channel == 1 && start == channel && start + WIDTH <= inputs)
          for (int v = 0; v < VECTORS; v++) STORE(LOAD(values + v * LANES), to + start + v * LANES);
        else
          for (int c = start; c < min(inputs, start + WIDTH); c++) to[(INT64)c * out_channel] = values[c - channel];
      }
    }
  }
}
