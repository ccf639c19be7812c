/* Places in three nested loops, the innermost below `inner`, the next below `middle`; the outermost has no end. */
#ifndef LIB_PLACE_H
#define LIB_PLACE_H

typedef struct {
  int inner, middle, outer;
} Place;

/* The place after `count` steps from the start. */
FUNCTION Place place_of(int count, int inner, int middle) {
  Place place;
  place.inner = count % inner;
  place.middle = count / inner % middle;
  place.outer = count / inner / middle;
  return place;
}

/* `place` and as many steps as lead from the start to `steps`: carries in place of divisions. */
FUNCTION Place moved(Place place, Place steps, int inner, int middle) {
  place.inner += steps.inner;
  place.middle += steps.middle;
  place.outer += steps.outer;
  if (place.inner >= inner) {
    place.inner -= inner;
    place.middle++;
  }
  if (place.middle >= middle) {
    place.middle -= middle;
    place.outer++;
  }
  return place;
}

#endif
