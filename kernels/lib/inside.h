/* Which positions of a window have a tap inside the image: those with 0 <= position * step + shift < size. */
#ifndef LIB_INSIDE_H
#define LIB_INSIDE_H

/* The first one at or after `low`, if there is any. */
FUNCTION int first_inside(int low, int step, int shift) { return shift < 0 ? MAX(low, (-shift + step - 1) / step) : low; }

/* The end of those before `high`. */
FUNCTION int end_inside(int high, int step, int shift, int size) {
  return shift >= size ? 0 : MIN(high, (size - 1 - shift) / step + 1);
}

#endif
