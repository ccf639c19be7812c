/* Loads and stores of VALUEs (lib/lanes.h). */
#ifndef LIB_MEMORY_H
#define LIB_MEMORY_H

#include "lib/lanes.h"

#if LANES == 1
#define LOAD(source) (*(source))
#define STORE(value, target) (*(target) = (value))
#else
#define LOAD(source) JOIN(vload, LANES)(0, source)
#define STORE(value, target) JOIN(vstore, LANES)(value, 0, target)
#endif

/* Up to LANES elements from `source`; what lies past `count` is not read and counts as zero. */
FUNCTION VALUE load_part(GLOBAL const REAL *source, INT64 count) {
  REAL lanes[LANES];
  if (count >= LANES) return LOAD(source);
  for (int i = 0; i < LANES; i++) lanes[i] = i < count ? source[i] : R(0.0);
  return LOAD(lanes);
}

/* Those of the LANES elements that lie before `count`. */
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
