/* Gradient of the weights for GPUs: partial[k, tap, c] = sum over images and positions of d[position, k] * x[position + tap, c].

   x        images x x_rows x x_columns, x_width channels per group side by side of which the first `inputs` count
   d        images x rows x columns, `outputs` values per group side by side
   partial  for each chunk of leaves the sum over it, in strides in elements of (chunk, group, k, tap, c)

   Work-groups (n, chunk) of SIDE x SIDE items are counted in n over blocks of kernels, blocks of channels, taps and
   groups. One owns WIDTH kernels by WIDTH channels at one tap of one chunk. Item (i, j) owns the channels i, i + SIDE,
   ... of the kernels j, j + SIDE, ...: neighbours write neighbours. STEP positions at a time are loaded into local
   memory, neighbours loading neighbours, while the STEP before are multiplied; there the values of one item lie side
   by side.

   Order: a chain per leaf over images, rows and columns ascending, taps outside the image left out; leaves summed as
   a tree. Positions past the end of a leaf are zero times zero.

   One long function, since local memory cannot be declared in, or handed to, another one. */
#include "prelude/common.h"
#include "lib/lanes.h"
#include "lib/leaves.h"
#include "lib/inside.h"
#include "lib/place.h"

#define SIDE 16
#define EACH 4
#define WIDTH (SIDE * EACH)
#define STEP SIDE
#define DEPTH 12 /* of the stack: chunks of up to 2**10 leaves */

#define SIZE (EACH * EACH)
#include "lib/tree.h"

/* Values of one item at the positions of a leaf: from the first position, steps from image to image, row to row and
   column to column; EACH values SIDE apart, of which those before `count` exist. */
typedef struct {
  GLOBAL const REAL *first;
  INT64 image, row, column;
  int count;
} Values;

FUNCTION void load(REAL *to, Values from, Place at, int valid) {
  INT64 place = at.outer * from.image + at.middle * from.row + at.inner * from.column;
  UNROLL for (int e = 0; e < EACH; e++) to[e] = valid && e * SIDE < from.count ? from.first[place + e * SIDE] : R(0.0);
}

KERNEL(SIDE, SIDE, 1) void weight_gradient(
    GLOBAL const REAL *RESTRICT x, GLOBAL const REAL *RESTRICT d, GLOBAL REAL *RESTRICT partial,
    INT64 x_start, INT64 x_image, INT64 x_row, int x_column, int x_rows, int x_columns, int x_width, int inputs,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    INT64 d_start, INT64 d_image, INT64 d_row, int d_column, int images, int rows, int columns, int outputs,
    int leaf_images, int leaf_rows, int chunk_units, int chunk_bands, int first_chunk,
    INT64 out_chunk, INT64 out_group, int out_kernel, int out_tap, int out_channel) {
  LOCAL REAL local_d[STEP][WIDTH], local_x[STEP][WIDTH];
  int i = ITEM(0), j = ITEM(1);
  Place number = place_of(GROUP(0), (outputs + WIDTH - 1) / WIDTH, (inputs + WIDTH - 1) / WIDTH);
  Place tap = place_of(number.outer, taps_x, taps_y);
  int first_k = number.inner * WIDTH, first_c = number.middle * WIDTH, group = tap.outer;
  int shift_y = start_y + tap.middle * tap_y, shift_x = start_x + tap.inner * tap_x;
  int left = first_inside(0, step_x, shift_x), width = end_inside(columns, step_x, shift_x, x_columns) - left;
  Chunk chunk = chunk_of(first_chunk + GROUP(1), images, rows, leaf_images, leaf_rows, chunk_units, chunk_bands);
  Values ds = {d, d_image, d_row, d_column, outputs - first_k - i};
  Values xs = {x, x_image, step_y * x_row, (INT64)step_x * x_column, inputs - first_c - i};
  REAL stack[DEPTH][SIZE];
  int units = 0;

  d += d_start + (INT64)group * outputs + first_k + i + left * ds.column;
  x += x_start + (INT64)group * x_width + first_c + i;
  x += shift_y * x_row + (INT64)shift_x * x_column + left * xs.column;
  for (int unit = chunk.unit; unit < chunk.unit_end; unit++) {
    int top = units, image = unit * leaf_images, depth = MIN(images - image, leaf_images);
    for (int band = chunk.band; band < chunk.band_end; band++) {
      int row = first_inside(band * leaf_rows, step_y, shift_y);
      int height = end_inside(MIN(rows, (band + 1) * leaf_rows), step_y, shift_y, x_rows) - row;
      int positions = width > 0 && height > 0 ? depth * height * width : 0;
      int inner = MAX(1, width), middle = MAX(1, height); /* nothing is divided by zero where there are no positions */
      Place at = place_of(j, inner, middle), step = place_of(STEP, inner, middle);
      REAL a[EACH], b[EACH], acc[SIZE];

      ds.first = d + image * d_image + row * ds.row;
      xs.first = x + image * x_image + row * xs.row;
      UNROLL for (int e = 0; e < SIZE; e++) acc[e] = R(0.0);
      load(a, ds, at, j < positions);
      load(b, xs, at, j < positions);
      for (int done = 0; done < positions; done += STEP) {
        BARRIER(); /* the positions before are done with */
        UNROLL for (int e = 0; e < EACH; e++) {
          local_d[j][i * EACH + e] = a[e];
          local_x[j][i * EACH + e] = b[e];
        }
        BARRIER();
        at = moved(at, step, inner, middle);
        load(a, ds, at, done + STEP + j < positions);
        load(b, xs, at, done + STEP + j < positions);
        UNROLL for (int p = 0; p < STEP; p++)
          UNROLL for (int e = 0; e < SIZE; e++)
            acc[e] = FMA(local_d[p][j * EACH + e / EACH], local_x[p][i * EACH + e % EACH], acc[e]);
      }
      top = push(stack, top, band - chunk.band, acc);
    }
    finish(stack, units, top);
    REAL node[SIZE];
    for (int e = 0; e < SIZE; e++) node[e] = stack[units][e];
    units = push(stack, units, unit - chunk.unit, node);
  }
  finish(stack, 0, units);

  partial += (first_chunk + GROUP(1)) * out_chunk + group * out_group + (INT64)(tap.middle * taps_x + tap.inner) * out_tap;
  for (int e = 0; e < SIZE; e++) {
    int k = first_k + j + e / EACH * SIDE, c = first_c + i + e % EACH * SIDE;
    if (k < outputs && c < inputs) partial[(INT64)k * out_kernel + (INT64)c * out_channel] = stack[0][e] + R(0.0);
  }
}
