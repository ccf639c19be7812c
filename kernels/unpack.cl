/* im2col: the cells that each output position sees, side by side.

   x        images x height x width, `channels` per group side by side; strides in elements
   columns  positions x group x width: of each position (image, row, column) and group its taps x channels, taps
            outside the image as zeros, zeros from there to `width`

   Item i of work-group g owns the taps of one row of the window, of position and group number g * 64 + i counted
   over (images, rows, columns, groups, taps_y). */
#include "prelude/common.h"
#include "lib/place.h"

KERNEL(64, 1, 1) void unpack(
    GLOBAL const REAL *RESTRICT x, GLOBAL REAL *RESTRICT columns,
    INT64 x_start, INT64 x_image, INT64 x_row, int x_column, int x_rows, int x_columns, int channels,
    int taps_y, int taps_x, int step_y, int step_x, int start_y, int start_x, int tap_y, int tap_x,
    int images, int rows, int row_columns, int groups, int width) {
  INT64 item = (INT64)GROUP(0) * 64 + ITEM(0), line = item / taps_y, position = line / groups;
  int ky = (int)(item - line * taps_y), group = (int)(line - position * groups);
  Place place = far_place_of(position, row_columns, rows);
  int column = place.inner, row = place.middle;
  INT64 image = place.outer;
  if (image < images) {
    int y = row * step_y + start_y + ky * tap_y, left = column * step_x + start_x;
    GLOBAL const REAL *from = x + x_start + image * x_image + y * x_row + (INT64)group * channels;
    GLOBAL REAL *to = columns + (position * groups + group) * width + ky * taps_x * channels;
    int together = tap_x * x_column == channels; /* the taps of a row and their channels follow each other */
    if (together && y >= 0 && y < x_rows && left >= 0 && left + taps_x <= x_columns) {
      from += (INT64)left * x_column;
      for (int e = 0; e < taps_x * channels; e++) to[e] = from[e];
    } else {
      for (int kx = 0; kx < taps_x; kx++) {
        int at = left + kx * tap_x, inside = y >= 0 && y < x_rows && at >= 0 && at < x_columns;
        for (int c = 0; c < channels; c++) to[kx * channels + c] = inside ? from[(INT64)at * x_column + c] : R(0.0);
      }
    }
    if (ky == taps_y - 1)
      for (int e = taps_x * channels; e < width - ky * taps_x * channels; e++) to[e] = R(0.0);
  }
}
