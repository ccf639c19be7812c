/* LANES vectors of LANES elements, LANES > 1, taken as a square and turned over its diagonal. */
#ifndef LIB_TRANSPOSE_H
#define LIB_TRANSPOSE_H

#include "lib/lanes.h"

#if LANES == 16
#define ZIP_LOW(a, b) (VALUE)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define ZIP_HIGH(a, b) (VALUE)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#elif LANES == 8
#define ZIP_LOW(a, b) (VALUE)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define ZIP_HIGH(a, b) (VALUE)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#elif LANES == 4
#define ZIP_LOW(a, b) (VALUE)(a.s0, b.s0, a.s1, b.s1)
#define ZIP_HIGH(a, b) (VALUE)(a.s2, b.s2, a.s3, b.s3)
#else
#define ZIP_LOW(a, b) (VALUE)(a.s0, b.s0)
#define ZIP_HIGH(a, b) (VALUE)(a.s1, b.s1)
#endif

/* Transpose LANES vectors: zip the first half with the second as often as it takes to double up to LANES. */
FUNCTION void transpose(VALUE *rows) {
  UNROLL for (int size = 1; size < LANES; size *= 2) {
    VALUE zipped[LANES];
    UNROLL for (int i = 0; i < LANES / 2; i++) {
      zipped[2 * i] = ZIP_LOW(rows[i], rows[i + LANES / 2]);
      zipped[2 * i + 1] = ZIP_HIGH(rows[i], rows[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) rows[i] = zipped[i];
  }
}

#endif
