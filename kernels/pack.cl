/* Weights in the order in which a correlation reads them.

   weights  any of the two storages of a layer's weights; strides in elements
   packed   group x block x tap x input x width: `width` outputs side by side, zeros past the last;
            from zeros_start on, 256 zeros

   Tap (ty, tx) of the correlation is the layer's tap first + ty * tap_y + tx * tap_x. Work-group (i, tap, group and
   block) of 64 items writes inputs i * 64 and on: an item writes `width` values of one input. */
#include "prelude/common.h"

KERNEL(64, 1, 1) void pack_weights(
    GLOBAL const REAL *RESTRICT weights, GLOBAL REAL *RESTRICT packed, INT64 zeros_start,
    INT64 group_stride, int output_stride, int input_stride, int tap_stride,
    int first, int tap_y, int tap_x, int taps_y, int taps_x, int inputs, int outputs, int width) {
  int input = GROUP(0) * 64 + ITEM(0), tap = GROUP(1), blocks = (outputs + width - 1) / width;
  int group = GROUP(2) / blocks, block = GROUP(2) % blocks;
  int from = first + tap / taps_x * tap_y + tap % taps_x * tap_x;
  if (input < inputs) {
    GLOBAL const REAL *source = weights + group * group_stride + (INT64)from * tap_stride + (INT64)input * input_stride;
    GLOBAL REAL *target = packed + (((INT64)GROUP(2) * taps_y * taps_x + tap) * inputs + input) * width;
    for (int lane = 0; lane < width; lane++) {
      int output = block * width + lane;
      target[lane] = output < outputs ? source[(INT64)output * output_stride] : R(0.0);
    }
  }
  if (GROUP(0) == 0 && tap == 0 && GROUP(2) == 0)
    for (int z = ITEM(0); z < 256; z += 64) packed[zeros_start + z] = R(0.0);
}
