/* Correlation for CPUs: out[cell, o] = sum over taps and inputs of src[cell + tap, input] * weights[o, tap, input].

   See convgrad/backends/device/correlation.py for what the arguments mean and for which layers it serves.

   src     images x rows x columns, `inputs` channels per group side by side; strides in elements
   packed  group x block x tap x input x WIDTH weights, WIDTH outputs side by side, zeros past the last;
           from zeros_start on, 256 zeros: what a cell sees through a tap that lies outside
   out     one value per cell and output; strides in elements

   One item per work-group. Groups are counted over places, blocks and groups, the first of these fastest or, with
   blocks_first, over blocks, places and groups. One owns a block of WIDTH outputs at a place: ROWS * TILES cells, which are
   counted over columns, rows and images or, with images_first, over images, columns and rows: then the cells of a tile
   mostly lie at one position, and a tap that is outside for it is passed over.

   Order: a chain per segment of taps or inputs, segments added up in turn. A segment's weights stay in the
   first cache while TILES tiles of ROWS cells pass over them. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/activation.h"
#include "lib/segments.h"

#define WIDTH (VECTORS * LANES)
#define TILES 4 /* of cells, that share a segment of weights while it is in the first cache */

/* Places of a tile's cells in the source, counted from their tap 0; whether all taps of all lie inside; whether the
   cells lie at one position, of several images. */
typedef struct {
  INT64 place[ROWS];
  int y[ROWS], x[ROWS];
  int inside, together;
} Cells;

/* acc += chain over `count` inputs; from[r] points to the inputs of cell r, weights to those of WIDTH outputs. */
FUNCTION void chain(VALUE (*acc)[VECTORS], GLOBAL const REAL *const *from, GLOBAL const REAL *weights, int count) {
  for (int k = 0; k < count; k++) {
    VALUE w[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) w[v] = LOAD(weights + k * WIDTH + v * LANES);
    UNROLL for (int r = 0; r < ROWS; r++) {
      VALUE a = (VALUE)(from[r][k]);
      UNROLL for (int v = 0; v < VECTORS; v++) acc[r][v] = fma(a, w[v], acc[r][v]);
    }
  }
}

KERNEL(1, 1, 1) void correlate(
    GLOBAL const REAL *RESTRICT src, GLOBAL const REAL *RESTRICT packed, GLOBAL const REAL *RESTRICT bias,
    GLOBAL REAL *RESTRICT out, INT64 zeros_start,
    INT64 src_start, INT64 src_image, INT64 src_row, int src_column, int src_rows, int src_columns, int inputs,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    int nominal, int nominal_y, int nominal_x, int segment_taps, int segment_inputs,
    int images, int rows, int columns,
    INT64 out_start, INT64 out_image, INT64 out_row, int out_column, int outputs,
    int has_bias, int activation, REAL alpha, REAL beta, int blocks_first, int images_first) {
  int blocks = (outputs + WIDTH - 1) / WIDTH, taps = taps_y * taps_x;
  INT64 count = (INT64)images * rows * columns;
  int places = (int)((count + ROWS * TILES - 1) / (ROWS * TILES));
  Place number = place_of(GROUP(0), blocks_first ? blocks : places, blocks_first ? places : blocks);
  int block = blocks_first ? number.inner : number.middle, group = number.outer;
  INT64 first = (INT64)(blocks_first ? number.middle : number.inner) * ROWS * TILES;
  int tiles = (int)min((INT64)TILES, (count - first + ROWS - 1) / ROWS);
  Place cell = far_place_of(first, images_first ? images : columns, images_first ? columns : rows);
  int i = images_first ? cell.middle : cell.inner, j = images_first ? cell.outer : cell.middle;
  INT64 n = images_first ? cell.inner : cell.outer;
  GLOBAL const REAL *zeros = packed + zeros_start;
  GLOBAL const REAL *weights = packed + (INT64)(group * blocks + block) * taps * inputs * WIDTH;
  Cells cells[TILES];
  INT64 target[TILES][ROWS];
  VALUE total[TILES][ROWS][VECTORS];

  src += src_start + (INT64)group * inputs;
  for (int t = 0; t < tiles; t++) {
    cells[t].inside = cells[t].together = 1;
    for (int r = 0; r < ROWS; r++) {
      int y = j * step_y + start_y, x = i * step_x + start_x;
      cells[t].y[r] = y;
      cells[t].x[r] = x;
      cells[t].together &= y == cells[t].y[0] && x == cells[t].x[0];
      cells[t].place[r] = n * src_image + y * src_row + (INT64)x * src_column;
      cells[t].inside &= y >= 0 && x >= 0 && y + (taps_y - 1) * tap_y < src_rows && x + (taps_x - 1) * tap_x < src_columns;
      target[t][r] = out_start + n * out_image + j * out_row + (INT64)i * out_column;
      for (int v = 0; v < VECTORS; v++) total[t][r][v] = (VALUE)(0);
      if (first + t * ROWS + r >= count - 1) continue; /* a tile that is not full computes the last cell again */
      if (images_first) {
        if (++n == images) n = 0, i++;
        if (i == columns) i = 0, j++;
      } else {
        if (++i == columns) i = 0, j++;
        if (j == rows) j = 0, n++;
      }
    }
  }

  for (int begin = 0, end; begin < taps; begin = end) {
    Place start = place_of(begin, taps_x, taps_y);
    end = segment_end(begin, taps, taps_x, nominal, nominal_y, nominal_x, segment_taps);
    for (int from = 0; from < inputs; from += segment_inputs) {
      int length = min(segment_inputs, inputs - from);
      for (int t = 0; t < tiles; t++) {
        VALUE acc[ROWS][VECTORS];
        UNROLL for (int r = 0; r < ROWS; r++)
          UNROLL for (int v = 0; v < VECTORS; v++) acc[r][v] = (VALUE)(0);
        for (int tap = begin, ky = start.middle, kx = start.inner; tap < end; tap++) {
          GLOBAL const REAL *sources[ROWS];
          INT64 shift = ky * tap_y * src_row + (INT64)(kx * tap_x) * src_column + from;
          int seen = 1; /* by a cell at least */
          if (cells[t].inside || cells[t].together) {
            int y = cells[t].y[0] + ky * tap_y, x = cells[t].x[0] + kx * tap_x;
            seen = y >= 0 && y < src_rows && x >= 0 && x < src_columns;
            UNROLL for (int r = 0; r < ROWS; r++) sources[r] = src + cells[t].place[r] + shift;
          } else {
            seen = 0;
            for (int r = 0; r < ROWS; r++) {
              int y = cells[t].y[r] + ky * tap_y, x = cells[t].x[r] + kx * tap_x;
              int inside = y >= 0 && y < src_rows && x >= 0 && x < src_columns;
              seen |= inside;
              sources[r] = inside ? src + cells[t].place[r] + shift : zeros;
            }
          }
          if (seen) chain(acc, sources, weights + ((INT64)tap * inputs + from) * WIDTH, length);
          if (++kx == taps_x) { kx = 0; ky++; }
        }
        UNROLL for (int r = 0; r < ROWS; r++)
          UNROLL for (int v = 0; v < VECTORS; v++) total[t][r][v] += acc[r][v];
      }
    }
  }

  int column = group * outputs + block * WIDTH, width = outputs - block * WIDTH; /* outputs from here on */
  VALUE shifts[VECTORS];
  for (int v = 0; v < VECTORS; v++)
    shifts[v] = has_bias ? load_part(bias + column + v * LANES, width - v * LANES) : (VALUE)(0);
  for (int t = 0; t < tiles; t++) {
    int cells_here = (int)min((INT64)ROWS, count - first - t * ROWS);
    for (int r = 0; r < cells_here; r++)
      for (int v = 0; v < VECTORS; v++) {
        GLOBAL REAL *to = out + target[t][r] + column + v * LANES;
        VALUE value = total[t][r][v];
        if (has_bias) value += shifts[v];
        value = alpha * ACTIVATE(activation, value);
        if (beta != 0) value += beta * load_part(to, width - v * LANES);
        store_part(value, to, width - v * LANES);
      }
  }
}
