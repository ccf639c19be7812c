/* Pooling: x (N, height, width, channels) -> out (N, rows, columns, channels), and its gradients as gathers.

   The window of output (oy, ox) has ky x kx taps: cells oy * step_y - top + tap * tap_y down, as many across; those
   inside the image count. offset (out's shape): the flat index in x of each maximum.
   inverse (rows, columns): 1 / area of each window.

   The results (N, rows, columns, channels), or (N, height, width, channels) of a gradient, are cut into parts of
   `columns_each` places of a row by `channels_each` channels, which have one owner: a work-item. Parts are counted
   over images, rows, columns and channels, the last the fastest, and go to groups by stretches (lib/stretch.h). GPUs
   have parts of one value; CPUs those of a row, LANES channels at a time. Where channels_each is no multiple of
   LANES, the last of them are computed twice, by the same work-item.

   INDEX: int where it can count the parts. */
#include "lib/memory.h"
#include "lib/stretch.h"
#include "lib/windows.h"

#define WINDOWS                                                                                       \
  INDEX parts, int stretch, int columns_each, int channels_each, int height, int width, int channels, \
      int rows, int columns, int ky, int kx, int step_y, int step_x, int tap_y, int tap_x, int top, int left

typedef struct {
  int image, row, column, column_end, channel, channel_end;
} Part;

/* Part i of (.., rows, columns, channels). */
FUNCTION Part part_of(INDEX i, int rows, int columns, int channels, int columns_each, int channels_each) {
  Part part;
  int across = (columns + columns_each - 1) / columns_each, deep = (channels + channels_each - 1) / channels_each;
  part.channel = (int)(i % deep) * channels_each;
  part.channel_end = MIN(part.channel + channels_each, channels);
  i /= deep;
  part.column = (int)(i % across) * columns_each;
  part.column_end = MIN(part.column + columns_each, columns);
  i /= across;
  part.row = (int)(i % rows);
  part.image = (int)(i / rows);
  return part;
}

/* The cells inside the image of a window that starts at cell `start`. */
FUNCTION Range cells_of(int start, int taps, int tap_step, int size) {
  Range cells;
  cells.first = start < 0 ? start + (tap_step - 1 - start) / tap_step * tap_step : start;
  cells.end = MIN(start + (taps - 1) * tap_step + 1, size);
  cells.step = tap_step;
  return cells;
}

FUNCTION VALUE magnitude(VALUE v) { return SELECT(v, -v, v < V(0.0)); }

typedef struct {
  VALUE value;
  INTS cell; /* counted from the window's first inside the image */
} Winner;

/* The first maximum, or the first NaN; `x` points to the first cell of the window inside the image. */
FUNCTION Winner winner_of(GLOBAL const REAL *x, Range y_cells, Range x_cells, int width, int channels, int absolute) {
  Winner best;
  best.value = LOAD(x);
  best.cell = (INTS)(0);
  for (int y = 0; y < y_cells.end - y_cells.first; y += y_cells.step)
    for (int i = 0; i < x_cells.end - x_cells.first; i += x_cells.step) {
      int cell = y * width + i;
      VALUE value = LOAD(x + (INT64)cell * channels);
      VALUE key = absolute ? magnitude(value) : value, best_key = absolute ? magnitude(best.value) : best.value;
      INTS better = (key > best_key) | ((key != key) & (best_key == best_key));
      best.value = SELECT(best.value, value, better);
      best.cell = SELECT(best.cell, (INTS)(cell), better);
    }
  return best;
}

/* absolute: compare magnitudes. offset may be null. */
KERNEL(ITEMS, 1, 1) void max_forward(
    GLOBAL const REAL *RESTRICT x, GLOBAL REAL *RESTRICT out, GLOBAL INT64 *RESTRICT offset, int absolute, WINDOWS) {
  for (INDEX i = FIRST(stretch); i < END(stretch, parts); i += ITEMS) {
    Part part = part_of(i, rows, columns, channels, columns_each, channels_each);
    Range y_cells = cells_of(part.row * step_y - top, ky, tap_y, height);
    INT64 row = ((INT64)part.image * height + y_cells.first) * width;
    INT64 out_row = ((INT64)part.image * rows + part.row) * columns;
    for (int column = part.column; column < part.column_end; column++) {
      Range x_cells = cells_of(column * step_x - left, kx, tap_x, width);
      for (int next = part.channel; next < part.channel_end; next += LANES) {
        int channel = MIN(next, part.channel_end - LANES);
        INT64 cell = (row + x_cells.first) * channels + channel, at = (out_row + column) * channels + channel;
        Winner best = winner_of(x + cell, y_cells, x_cells, width, channels, absolute);
        STORE(best.value, out + at);
        if (offset) STORE(TO_LONGS(best.cell) * channels + cell + LANE_NUMBERS, offset + at);
      }
    }
  }
}

/* err_input: each cell's sum of err_output over the windows, ascending, whose offset names it. */
KERNEL(ITEMS, 1, 1) void max_backward(
    GLOBAL const REAL *RESTRICT err_output, GLOBAL const INT64 *RESTRICT offset, GLOBAL REAL *RESTRICT err_input,
    WINDOWS) {
  for (INDEX i = FIRST(stretch); i < END(stretch, parts); i += ITEMS) {
    Part part = part_of(i, height, width, channels, columns_each, channels_each);
    Range y_over = windows_over(part.row + top, ky, tap_y, step_y, rows);
    for (int column = part.column; column < part.column_end; column++) {
      Range x_over = windows_over(column + left, kx, tap_x, step_x, columns);
      INT64 cell = (((INT64)part.image * height + part.row) * width + column) * channels;
      for (int next = part.channel; next < part.channel_end; next += LANES) {
        int channel = MIN(next, part.channel_end - LANES);
        LONGS self = cell + channel + LANE_NUMBERS;
        VALUE sum = V(0.0);
        for (int oy = y_over.first; oy < y_over.end; oy++) {
          if (tap_at(part.row + top - oy * step_y, tap_y) < 0) continue;
          for (int ox = x_over.first; ox < x_over.end; ox++) {
            if (tap_at(column + left - ox * step_x, tap_x) < 0) continue;
            INT64 at = (((INT64)part.image * rows + oy) * columns + ox) * channels + channel;
            VALUE d = LOAD(err_output + at);
            sum += SELECT(V(0.0), d, MASK(LOAD(offset + at) == self));
          }
        }
        STORE(sum, err_input + cell + channel);
      }
    }
  }
}

KERNEL(ITEMS, 1, 1) void average_forward(
    GLOBAL const REAL *RESTRICT x, GLOBAL const REAL *RESTRICT inverse, GLOBAL REAL *RESTRICT out, WINDOWS) {
  for (INDEX i = FIRST(stretch); i < END(stretch, parts); i += ITEMS) {
    Part part = part_of(i, rows, columns, channels, columns_each, channels_each);
    Range y_cells = cells_of(part.row * step_y - top, ky, tap_y, height);
    INT64 image = (INT64)part.image * height, out_row = ((INT64)part.image * rows + part.row) * columns;
    for (int column = part.column; column < part.column_end; column++) {
      Range x_cells = cells_of(column * step_x - left, kx, tap_x, width);
      VALUE share = (VALUE)(inverse[(INT64)part.row * columns + column]);
      for (int next = part.channel; next < part.channel_end; next += LANES) {
        int channel = MIN(next, part.channel_end - LANES);
        VALUE sum = V(0.0);
        for (int y = y_cells.first; y < y_cells.end; y += y_cells.step)
          for (int ix = x_cells.first; ix < x_cells.end; ix += x_cells.step)
            sum += LOAD(x + ((image + y) * width + ix) * channels + channel);
        STORE(sum * share + V(0.0), out + (out_row + column) * channels + channel);
      }
    }
  }
}

/* err_input: each cell's chain of (err_output, inverse) over the windows, ascending, that hold it. */
KERNEL(ITEMS, 1, 1) void average_backward(
    GLOBAL const REAL *RESTRICT err_output, GLOBAL const REAL *RESTRICT inverse, GLOBAL REAL *RESTRICT err_input,
    WINDOWS) {
  for (INDEX i = FIRST(stretch); i < END(stretch, parts); i += ITEMS) {
    Part part = part_of(i, height, width, channels, columns_each, channels_each);
    Range y_over = windows_over(part.row + top, ky, tap_y, step_y, rows);
    for (int column = part.column; column < part.column_end; column++) {
      Range x_over = windows_over(column + left, kx, tap_x, step_x, columns);
      INT64 cell = (((INT64)part.image * height + part.row) * width + column) * channels;
      for (int next = part.channel; next < part.channel_end; next += LANES) {
        int channel = MIN(next, part.channel_end - LANES);
        VALUE sum = V(0.0);
        for (int oy = y_over.first; oy < y_over.end; oy++) {
          if (tap_at(part.row + top - oy * step_y, tap_y) < 0) continue;
          for (int ox = x_over.first; ox < x_over.end; ox++) {
            if (tap_at(column + left - ox * step_x, tap_x) < 0) continue;
            INT64 at = (((INT64)part.image * rows + oy) * columns + ox) * channels + channel;
            sum = FMA(LOAD(err_output + at), (VALUE)(inverse[(INT64)oy * columns + ox]), sum);
          }
        }
        STORE(sum + V(0.0), err_input + cell + channel);
      }
    }
  }
}
