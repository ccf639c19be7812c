/* Correlation for CPUs with few outputs: out[cell, o] = sum over taps and inputs of turned[cell + tap, input] * weights[o, tap, input].

   For steps of one cell and one group; OUTPUTS of at most 4, by -D, are all there are. Vectors hold neighbouring cells
   here, since there are not outputs enough to fill one.

   turned  images x src_rows x inputs x width: cells side by side, with zeros wherever a tap may reach (cpu/turn.cl);
           what tap 0 of cell (0, 0) sees lies at `origin`
   packed  tap x input x OUTPUTS weights
   out     one value per cell and output; strides in elements

   One item per work-group. Groups are counted over tiles, bands and images; one owns the outputs of VECTORS * LANES cells of ROWS rows.

   Order: as in cpu/correlate.cl. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/activation.h"
#include "lib/segments.h"

#define CELLS (VECTORS * LANES)

KERNEL(1, 1, 1) void correlate_narrow(
    GLOBAL const REAL *RESTRICT turned, GLOBAL const REAL *RESTRICT packed, GLOBAL const REAL *RESTRICT bias,
    GLOBAL REAL *RESTRICT out, int src_rows, int inputs, int width, INT64 origin,
    int taps_y, int taps_x, int tap_y, int tap_x,
    int nominal, int nominal_y, int nominal_x, int segment_taps, int segment_inputs,
    int rows, int columns, INT64 out_start, INT64 out_image, INT64 out_row, int out_column,
    int has_bias, int activation, REAL alpha, REAL beta) {
  Place place = place_of(GROUP(0), (columns + CELLS - 1) / CELLS, (rows + ROWS - 1) / ROWS);
  int first = place.inner * CELLS, row = place.middle * ROWS, number = place.outer, taps = taps_y * taps_x;
  INT64 src_row = (INT64)inputs * width;
  GLOBAL const REAL *image = turned + origin + number * src_rows * src_row + row * src_row + first;
  VALUE total[ROWS][OUTPUTS][VECTORS];
  UNROLL for (int r = 0; r < ROWS; r++)
    UNROLL for (int o = 0; o < OUTPUTS; o++)
      UNROLL for (int v = 0; v < VECTORS; v++) total[r][o][v] = (VALUE)(0);

  for (int begin = 0, end; begin < taps; begin = end) {
    Place start = place_of(begin, taps_x, taps_y);
    end = segment_end(begin, taps, taps_x, nominal, nominal_y, nominal_x, segment_taps);
    for (int from = 0; from < inputs; from += segment_inputs) {
      VALUE acc[ROWS][OUTPUTS][VECTORS];
      UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int o = 0; o < OUTPUTS; o++)
          UNROLL for (int v = 0; v < VECTORS; v++) acc[r][o][v] = (VALUE)(0);
      for (int tap = begin, ky = start.middle, kx = start.inner; tap < end; tap++) {
        int count = min(segment_inputs, inputs - from);
        GLOBAL const REAL *source = image + ky * tap_y * src_row + (INT64)from * width + kx * tap_x;
        GLOBAL const REAL *weights = packed + ((INT64)tap * inputs + from) * OUTPUTS;
        for (int k = 0; k < count; k++, source += width, weights += OUTPUTS)
          UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL for (int v = 0; v < VECTORS; v++) {
              VALUE cells = LOAD(source + r * src_row + v * LANES);
              UNROLL for (int o = 0; o < OUTPUTS; o++) acc[r][o][v] = fma(cells, (VALUE)(weights[o]), acc[r][o][v]);
            }
        if (++kx == taps_x) kx = 0, ky++;
      }
      UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int o = 0; o < OUTPUTS; o++)
          UNROLL for (int v = 0; v < VECTORS; v++) total[r][o][v] += acc[r][o][v];
    }
  }

  int here = min(CELLS, columns - first);
  for (int r = 0; r < min(ROWS, rows - row); r++) {
    GLOBAL REAL *to = out + out_start + number * out_image + (row + r) * out_row + (INT64)first * out_column;
    for (int o = 0; o < OUTPUTS; o++) {
      REAL values[CELLS];
      for (int v = 0; v < VECTORS; v++) {
        VALUE value = total[r][o][v];
        if (has_bias) value += (VALUE)(bias[o]);
        STORE(alpha * ACTIVATE(activation, value), values + v * LANES);
      }
      if (beta != 0)
        for (int i = 0; i < here; i++) to[(INT64)i * out_column + o] = values[i] + beta * to[(INT64)i * out_column + o];
      else
        for (int i = 0; i < here; i++) to[(INT64)i * out_column + o] = values[i];
    }
  }
}
