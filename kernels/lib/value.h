/* VALUE: a vector of LANES elements where a program of CPU shape defines LANES, else one element. */
#ifndef LIB_VALUE_H
#define LIB_VALUE_H

#ifdef LANES
#include "cpu/vector.h"
#define VALUE VECTOR
#define VALUE_ITEMS 1
#else
#define LANES 1
#define VALUE REAL
#define LOAD(source) (*(source))
#define STORE(value, target) (*(target) = (value))
#define VALUE_ITEMS 64
#endif

/* Up to LANES elements from `source`; what lies past `count` is not read and counts as zero. */
FUNCTION VALUE load_part(GLOBAL const REAL *source, INT64 count) {
  REAL lanes[LANES];
  if (count >= LANES) return LOAD(source);
  for (int i = 0; i < LANES; i++) lanes[i] = i < count ? source[i] : R(0.0);
  return LOAD(lanes);
}

FUNCTION void store_part(VALUE value, GLOBAL REAL *target, INT64 count) {
  REAL lanes[LANES];
  if (count >= LANES) {
    STORE(value, target);
    return;
  }
  STORE(value, lanes);
  for (int i = 0; i < LANES; i++)
    if (i < count) target[i] = lanes[i];
}

#endif
