/* Correlation for GPUs: out[cell, o] = sum over taps and inputs of src[cell + tap, input] * weights[o, tap, input].

   See convgrad/backends/device/correlation.py for what the arguments mean and for which layers it serves.

   src     images x rows x columns, `inputs` channels per group side by side; strides in elements
   packed  group x block x tap x input x WIDTH weights, WIDTH outputs side by side, zeros past the last
   out     one value per cell and output; strides in elements

   Work-groups of SIDE x SIDE items are counted over places, blocks and groups. One owns a block of WIDTH outputs at a
   place, that is CELLS cells, which are counted over columns, rows and images. Item (i, j) owns the outputs i, i +
   SIDE, ... of the cells j * EACH and on: neighbours write neighbours. STEP terms at a time, a term being an input
   through a tap, are loaded into local memory, neighbours loading neighbours, while the STEP before are multiplied.

   Order: a chain per segment of taps or inputs, segments added up in turn. Terms outside the image or past the end of
   a segment are zero times zero or a weight.

   One long function, since local memory cannot be declared in, or handed to, another one. */
#include "prelude/common.h"
#include "lib/activation.h"
#include "lib/place.h"
#include "lib/segments.h"

#define SIDE 16
#define EACH 4
#define SIZE (EACH * EACH)
#define CELLS (SIDE * EACH)
#define WIDTH (SIDE * EACH)
#define STEP SIDE
#define PITCH (CELLS + 4) /* of a row of cells: a column is stored through many banks, four neighbours are aligned */

/* The source, and how far its taps lie from each other. */
typedef struct {
  GLOBAL const REAL *first;
  INT64 row;
  int column, rows, columns, tap_y, tap_x;
} Source;

/* Where the first tap of a cell lies: its place from the start of the source, its row and column in the image. */
typedef struct {
  INT64 place;
  int y, x;
} Cell;

/* The inputs of EACH cells at one term, that is (input, tap across, tap down). */
FUNCTION void load_inputs(REAL *values, Source source, const Cell *cells, Place term, int valid) {
  int below = term.outer * source.tap_y, aside = term.middle * source.tap_x;
  INT64 shift = below * source.row + (INT64)aside * source.column + term.inner;
  UNROLL for (int e = 0; e < EACH; e++) {
    int y = cells[e].y + below, x = cells[e].x + aside;
    int inside = valid && y >= 0 && y < source.rows && x >= 0 && x < source.columns;
    values[e] = inside ? source.first[cells[e].place + shift] : R(0.0);
  }
}

/* EACH of the STEP x WIDTH weights of the next terms, of which `count` are left. */
FUNCTION void load_weights(REAL *values, GLOBAL const REAL *weights, int item, int count) {
  UNROLL for (int e = 0; e < EACH; e++) {
    int at = e * SIDE * SIDE + item;
    values[e] = at < count ? weights[at] : R(0.0);
  }
}

KERNEL(SIDE, SIDE, 1) void correlate(
    GLOBAL const REAL *RESTRICT src, GLOBAL const REAL *RESTRICT packed, GLOBAL const REAL *RESTRICT bias,
    GLOBAL REAL *RESTRICT out, INT64 zeros_start,
    INT64 src_start, INT64 src_image, INT64 src_row, int src_column, int src_rows, int src_columns, int inputs,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    int nominal, int nominal_y, int nominal_x, int segment_taps, int segment_inputs,
    int images, int rows, int columns,
    INT64 out_start, INT64 out_image, INT64 out_row, int out_column, int outputs,
    int has_bias, int activation, REAL alpha, REAL beta) {
  LOCAL REAL local_inputs[STEP][PITCH], local_weights[STEP][WIDTH];
  int blocks = (outputs + WIDTH - 1) / WIDTH, taps = taps_y * taps_x;
  INT64 count = (INT64)images * rows * columns;
  Place number = place_of(GROUP(0), (int)((count + CELLS - 1) / CELLS), blocks);
  int block = number.middle, group = number.outer, i = ITEM(0), j = ITEM(1), item = j * SIDE + i;
  unsigned row = (unsigned)j / EACH, part = (unsigned)j % EACH; /* of the weights that the item loads: outputs i + part * SIDE */
  INT64 first = (INT64)number.inner * CELLS;
  int last = (int)MIN(count - first, CELLS) - 1;
  Place origin = far_place_of(first, columns, rows);
  Source source = {src, src_row, src_column, src_rows, src_columns, tap_y, tap_x};
  GLOBAL const REAL *weights = packed + (INT64)(group * blocks + block) * taps * inputs * WIDTH;
  Cell cells[EACH];
  REAL total[SIZE];

  (void)zeros_start; /* for the kernel of CPU shape, which has the same parameters */
  src += src_start + (INT64)group * inputs;
  UNROLL for (int e = 0; e < EACH; e++) { /* a tile that is not full loads its last cell again */
    Place at = moved(origin, place_of(MIN(e * SIDE + j, last), columns, rows), columns, rows);
    cells[e].y = at.middle * step_y + start_y;
    cells[e].x = at.inner * step_x + start_x;
    cells[e].place = at.outer * src_image + cells[e].y * src_row + (INT64)cells[e].x * src_column;
  }
  UNROLL for (int e = 0; e < SIZE; e++) total[e] = R(0.0);

  for (int begin = 0, end; begin < taps; begin = end) {
    end = segment_end(begin, taps, taps_x, nominal, nominal_y, nominal_x, segment_taps);
    for (int from = 0; from < inputs; from += segment_inputs) {
      int length = MIN(segment_inputs, inputs - from), terms = (end - begin) * length;
      GLOBAL const REAL *next = weights + ((INT64)begin * inputs + from) * WIDTH;
      Place tap = place_of(begin, taps_x, taps), term = {0, tap.inner, tap.middle}, step = place_of(STEP, length, taps_x);
      REAL a[EACH], w[EACH], acc[SIZE];

      term = moved(term, place_of(i, length, taps_x), length, taps_x);
      source.first = src + from;
      UNROLL for (int e = 0; e < SIZE; e++) acc[e] = R(0.0);
      load_inputs(a, source, cells, term, i < terms);
      load_weights(w, next, item, terms * WIDTH);
      for (int done = 0; done < terms; done += STEP) {
        BARRIER(); /* the terms before are done with */
        UNROLL for (int e = 0; e < EACH; e++) {
          local_inputs[i][e * SIDE + j] = a[e];
          local_weights[e * EACH + row][i * EACH + part] = w[e];
        }
        BARRIER();
        term = moved(term, step, length, taps_x);
        next += STEP * WIDTH;
        load_inputs(a, source, cells, term, done + STEP + i < terms);
        load_weights(w, next, item, (terms - done - STEP) * WIDTH);
        UNROLL for (int k = 0; k < STEP; k++)
          UNROLL for (int e = 0; e < SIZE; e++)
            acc[e] = FMA(local_inputs[k][j * EACH + e / EACH], local_weights[k][i * EACH + e % EACH], acc[e]);
      }
      UNROLL for (int e = 0; e < SIZE; e++) total[e] = total[e] + acc[e];
    }
  }

  for (int r = 0; r < EACH && j * EACH + r <= last; r++) {
    Place at = moved(origin, place_of(j * EACH + r, columns, rows), columns, rows);
    int channel = group * outputs + block * WIDTH + i;
    GLOBAL REAL *to = out + out_start + at.outer * out_image + at.middle * out_row + (INT64)at.inner * out_column + channel;
    for (int c = 0; c < EACH; c++) {
      if (block * WIDTH + c * SIDE + i < outputs) {
        REAL value = total[0];
        if (has_bias) value = value + bias[channel + c * SIDE];
        value = alpha * ACTIVATE(activation, value);
        if (beta != 0) value = value + beta * to[c * SIDE];
        to[c * SIDE] = value;
      }
      UNROLL for (int e = 1; e < SIZE; e++) total[e - 1] = total[e]; /* an index that varies would cost registers */
    }
  }
}
