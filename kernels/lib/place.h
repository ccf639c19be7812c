/* Places in three nested loops, the innermost below `inner`, the next below `middle`; the outermost has no end.

   Remainders are written out: where a quotient and a remainder of the same numbers meet, compilers make an
   instruction of them that Oclgrind does not know. */
#ifndef LIB_PLACE_H
#define LIB_PLACE_H

typedef struct {
  int inner, middle, outer;
} Place;

/* The place after `count` steps from the start. */
FUNCTION Place place_of(int count, int inner, int middle) {
  Place place;
  int whole = count / inner;
  place.inner = count - whole * inner;
  place.outer = whole / middle;
  place.middle = whole - place.outer * middle;
  return place;
}

/* The same for counts beyond int. */
FUNCTION Place far_place_of(INT64 count, int inner, int middle) {
  Place place;
  INT64 whole = count / inner;
  place.inner = (int)(count - whole * inner);
  place.outer = (int)(whole / middle);
  place.middle = (int)(whole - (INT64)place.outer * middle);
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
