/* pack.cl for CPUs: weights in the order in which a correlation reads them.

   weights  strides in elements: of outputs or of inputs it is 1
   packed   as in pack.cl

   One item per work-group. Groups are counted over pieces of PIECE inputs, taps, blocks and groups; one owns its piece's
   `width` outputs. The first owns the zeros too. */
#include "prelude/common.h"
#include "lib/memory.h"
#include "lib/place.h"
#include "lib/transpose.h"

#define PIECE 64

KERNEL(1, 1, 1) void pack_weights(
    GLOBAL const REAL *RESTRICT weights, GLOBAL REAL *RESTRICT packed, INT64 zeros_start,
    INT64 group_stride, int output_stride, int input_stride, int tap_stride,
    int first, int tap_y, int tap_x, int taps_y, int taps_x, int inputs, int outputs, int width) {
  int pieces = (inputs + PIECE - 1) / PIECE, taps = taps_y * taps_x, blocks = (outputs + width - 1) / width;
  Place place = place_of(GROUP(0), pieces, taps);
  int tap = place.middle, group = place.outer / blocks, block = place.outer - group * blocks;
  int begin = place.inner * PIECE, end = min(begin + PIECE, inputs);
  int ky = tap / taps_x, from = first + ky * tap_y + (tap - ky * taps_x) * tap_x;
  GLOBAL const REAL *source = weights + group * group_stride + (INT64)from * tap_stride;
  GLOBAL REAL *target = packed + ((INT64)place.outer * taps + tap) * inputs * width;

  for (int lane = 0; lane < width; lane += LANES) {
    int output = block * width + lane, there = outputs - output, wide = width - lane;
    if (output_stride == 1) {
      for (int k = begin; k < end; k++)
        store_part(load_part(source + (INT64)k * input_stride + output, there), target + (INT64)k * width + lane, wide);
      continue;
    }
    for (int k = begin; k < end; k += LANES) {
      VALUE square[LANES];
      UNROLL for (int i = 0; i < LANES; i++)
        square[i] = i < there ? load_part(source + (INT64)(output + i) * output_stride + k, end - k) : (VALUE)(0);
      transpose(square);
      for (int i = 0; i < min(LANES, end - k); i++) store_part(square[i], target + (INT64)(k + i) * width + lane, wide);
    }
  }
  if (GROUP(0) == 0)
    for (int z = 0; z < 256; z++) packed[zeros_start + z] = R(0.0);
}
