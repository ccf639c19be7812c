/* Windows over a cell, along one axis. `place` is the cell, counted from where the first window begins. */
#ifndef LIB_WINDOWS_H
#define LIB_WINDOWS_H

/* From first, below end, in steps. */
typedef struct {
  int first, end, step;
} Range;

/* The windows between whose first and last tap the cell lies. */
FUNCTION Range windows_over(int place, int taps, int tap_step, int step, int windows) {
  Range over;
  int first = place - (taps - 1) * tap_step;
  over.first = first > 0 ? (first + step - 1) / step : 0;
  over.end = MIN(place / step + 1, windows);
  over.step = 1;
  return over;
}

/* Which tap of a window the cell is that lies `place` cells after its first one; -1 where it is between two. */
FUNCTION int tap_at(int place, int tap_step) {
  int tap = tap_step == 1 ? place : place / tap_step;
  return tap * tap_step == place ? tap : -1;
}

#endif
