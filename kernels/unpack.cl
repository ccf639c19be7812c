/* im2col: the cells that each output position sees, side by side.

   x        images x x_rows x x_columns, `channels` per group side by side; strides in elements
   columns  positions x groups x width: of each position (image, row, column) and group its taps x channels, taps
            outside the image as zeros, zeros from there to `width`

   An item owns whole positions: group g of ITEMS items has those from g * stretch on (lib/stretch.h). */
#include "prelude/common.h"
#include "lib/place.h"
#include "lib/stretch.h"

KERNEL(ITEMS, 1, 1) void unpack(
    GLOBAL const REAL *RESTRICT x, GLOBAL REAL *RESTRICT columns,
    INT64 x_start, INT64 x_image, INT64 x_row, int x_column, int x_rows, int x_columns, int channels,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    int images, int rows, int row_columns, int groups, int width, int stretch) {
  INT64 count = (INT64)images * rows * row_columns;
  Place place = far_place_of(FIRST(stretch), row_columns, rows), step = place_of(ITEMS, row_columns, rows);
  int together = tap_x * x_column == channels; /* the taps of a row and their channels follow each other */
  for (INT64 position = FIRST(stretch); position < END(stretch, count); position += ITEMS) {
    int top = place.middle * step_y + start_y, left = place.inner * step_x + start_x;
    GLOBAL const REAL *image = x + x_start + place.outer * x_image;
    GLOBAL REAL *to = columns + position * groups * width;
    for (int group = 0; group < groups; group++, image += channels, to += width) {
      int e = 0;
      for (int ky = 0; ky < taps_y; ky++) {
        int y = top + ky * tap_y;
        GLOBAL const REAL *from = image + y * x_row + (INT64)left * x_column;
        if (together) {
          int first = MIN(MAX(-left, 0), taps_x), last = MAX(first, MIN(x_columns - left, taps_x)), end = e + taps_x * channels;
          if (y < 0 || y >= x_rows) first = last = taps_x;
          int inside = e + first * channels, outside = e + last * channels;
          from -= e;
          for (; e < inside; e++) to[e] = R(0.0);
          for (; e < outside; e++) to[e] = from[e];
          for (; e < end; e++) to[e] = R(0.0);
        } else {
          for (int kx = 0; kx < taps_x; kx++, from += (INT64)tap_x * x_column) {
            int at = left + kx * tap_x, inside = y >= 0 && y < x_rows && at >= 0 && at < x_columns;
            for (int c = 0; c < channels; c++) to[e++] = inside ? from[c] : R(0.0);
          }
        }
      }
      while (e < width) to[e++] = R(0.0);
    }
    place = moved(place, step, row_columns, rows);
  }
}
