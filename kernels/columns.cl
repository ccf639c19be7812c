/* col2im: each cell of an image takes what the columns of all windows over it hold for it.

   columns  images x rows x row_columns positions, x groups x taps x channels
   out      images x out_rows x out_columns cells, `channels` per group side by side; strides in elements

   Row r of the cells, of `out_rows`, is the image's row first_cell + r, and row q of the positions is that of window
   first_window + q: among them are all windows over these cells. Tap (ky, kx) of window (row, column) is the image's
   cell (row * step_y - before_y + ky * tap_y, column * step_x - before_x + kx * tap_x).

   Work-group (row of cells counted over the images, s) of ITEMS items owns elements s * stretch and on, up to the next
   s, of the row; an element is LANES channels of one group at one cell.

   Order: the sum over windows, rows and columns ascending, from +0.0; then bias, activation, alpha, beta * old. */
#include "lib/memory.h"
#include "lib/activation.h"
#include "lib/place.h"
#include "lib/windows.h"

#ifndef ITEMS
#define ITEMS 64
#endif

KERNEL(ITEMS, 1, 1) void pack_columns(
    GLOBAL const REAL *RESTRICT columns, GLOBAL const REAL *RESTRICT bias, GLOBAL REAL *RESTRICT out,
    INT64 out_start, INT64 out_image, INT64 out_row, int out_column, int out_rows, int out_columns, int channels, int groups,
    int taps_y, int taps_x, int step_y, int step_x, int before_y, int before_x, int tap_y, int tap_x,
    int first_cell, int first_window, int rows, int row_columns, int stretch,
    int has_bias, int activation, REAL alpha, REAL beta) {
  int parts = (channels + LANES - 1) / LANES, count = out_columns * groups * parts;
  int image = GROUP(0) / out_rows, row = GROUP(0) - image * out_rows, y = first_cell + row + before_y;
  Range y_over = windows_over(y, taps_y, tap_y, step_y, first_window + rows);

  for (int i = GROUP(1) * stretch + ITEM(0); i < MIN((GROUP(1) + 1) * stretch, count); i += ITEMS) {
    Place at = place_of(i, parts, groups);
    int channel = at.inner * LANES, group = at.middle, column = at.outer, x = column + before_x;
    int left = channels - channel; /* channels of the group from here on */
    Range x_over = windows_over(x, taps_x, tap_x, step_x, row_columns);
    GLOBAL REAL *to = out + out_start + image * out_image + row * out_row + (INT64)column * out_column + group * channels + channel;
    VALUE sum = V(0.0);

    for (int oy = y_over.first; oy < y_over.end; oy++) {
      int ky = tap_at(y - oy * step_y, tap_y);
      if (ky < 0) continue;
      INT64 position = ((INT64)image * rows + oy - first_window) * row_columns;
      for (int ox = x_over.first; ox < x_over.end; ox++) {
        int kx = tap_at(x - ox * step_x, tap_x);
        if (kx < 0) continue;
        INT64 entry = ((((position + ox) * groups + group) * taps_y + ky) * taps_x + kx) * channels + channel;
        sum += load_part(columns + entry, left);
      }
    }
    if (has_bias) sum += load_part(bias + group * channels + channel, left);
    sum = alpha * ACTIVATE(activation, sum);
    if (beta != 0) sum += beta * load_part(to, left);
    store_part(sum, to, left);
  }
}
