/* Images with positions side by side in place of channels, and zeros around them.

   d       images x rows x columns x channels; strides in elements
   turned  images x height x channels x width: row r lies at `top` + r, column c at `left` + c

   One item per work-group. Groups are counted over rows and images; one owns a row of `turned`, of all its channels. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/transpose.h"

KERNEL(1, 1, 1) void turn(
    GLOBAL const REAL *RESTRICT d, GLOBAL REAL *RESTRICT turned,
    INT64 d_start, INT64 d_image, INT64 d_row, int d_column, int rows, int columns, int channels,
    int top, int height, int left, int width) {
  int image = GROUP(0) / height, row = GROUP(0) - image * height - top, inside = row >= 0 && row < rows;
  GLOBAL const REAL *from = d + d_start + image * d_image + row * d_row;
  GLOBAL REAL *to = turned + (INT64)GROUP(0) * channels * width;
  for (int k = 0; k < channels; k++) {
    GLOBAL REAL *line = to + (INT64)k * width;
    for (int i = 0; i < (inside ? left : width); i++) line[i] = R(0.0);
    for (int i = left + columns; i < width; i++) line[i] = R(0.0);
  }
  if (!inside) return;
  to += left;
  for (int k = 0; k < channels; k += LANES)
    for (int column = 0; column < columns; column += LANES) {
      VALUE block[LANES];
      int wide = min(LANES, columns - column), deep = min(LANES, channels - k);
      UNROLL for (int i = 0; i < LANES; i++)
        block[i] = i < wide ? load_part(from + (INT64)(column + i) * d_column + k, deep) : (VALUE)(0);
      transpose(block);
      for (int i = 0; i < deep; i++) store_part(block[i], to + (INT64)(k + i) * width + column, wide);
    }
}
