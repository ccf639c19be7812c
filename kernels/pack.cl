/* Weights in the order in which a correlation reads them.

   weights  any of the two storages of a layer's weights; strides in elements
   packed   group x block x tap x input x width: `width` outputs side by side, zeros past the last;
            from zeros_start on, 256 zeros

   Tap (ty, tx) of the correlation is the layer's tap first + ty * tap_y + tx * tap_x. Groups of 64 items are
   counted over parts, blocks and groups; item i of part p owns the `width` values of one tap and input, number
   p * 64 + i of all. The items of the first group own the zeros too. */
#include "prelude/common.h"
#include "lib/place.h"

KERNEL(64, 1, 1) void pack_weights(
    GLOBAL const REAL *RESTRICT weights, GLOBAL REAL *RESTRICT packed, INT64 zeros_start,
    INT64 group_stride, int output_stride, int input_stride, int tap_stride,
    int first, int tap_y, int tap_x, int taps_y, int taps_x, int inputs, int outputs, int width) {
  int taps = taps_y * taps_x, parts = (taps * inputs + 63) / 64, blocks = (outputs + width - 1) / width;
  Place place = place_of(GROUP(0), parts, blocks);
  int block = place.middle, group = place.outer;
  int item = place.inner * 64 + ITEM(0), tap = item / inputs, input = item - tap * inputs;
  if (tap < taps) {
    int ky = tap / taps_x, from = first + ky * tap_y + (tap - ky * taps_x) * tap_x;
    GLOBAL const REAL *source = weights + group * group_stride + (INT64)from * tap_stride + (INT64)input * input_stride;
    GLOBAL REAL *target = packed + ((INT64)(group * blocks + block) * taps * inputs + item) * width;
    for (int lane = 0; lane < width; lane++) {
      int output = block * width + lane;
      target[lane] = output < outputs ? source[(INT64)output * output_stride] : R(0.0);
    }
  }
  if (GROUP(0) == 0)
    for (int z = ITEM(0); z < 256; z += 64) packed[zeros_start + z] = R(0.0);
}
