/* Segments of the taps of a correlation, see docs/numerics.md: a tap's place in nominal order decides where one ends. */
#ifndef LIB_SEGMENTS_H
#define LIB_SEGMENTS_H

#include "lib/place.h"

/* The end of the segment that begins with tap `begin`. Places in nominal order ascend from tap to tap. */
FUNCTION int segment_end(int begin, int taps, int taps_x, int nominal, int nominal_y, int nominal_x, int segment_taps) {
  Place tap = place_of(begin, taps_x, taps);
  int kx = tap.inner, ky = tap.middle, end = begin;
  int limit = ((nominal + ky * nominal_y + kx * nominal_x) / segment_taps + 1) * segment_taps;
  while (end < taps && nominal + ky * nominal_y + kx * nominal_x < limit) {
    end++;
    if (++kx == taps_x) kx = 0, ky++;
  }
  return end;
}

#endif
