/* VALUE: LANES elements of type REAL that are computed on together; LANES, by -D, is 1 (a scalar, in every
   language) or a length of OpenCL's vectors. What is written with these words serves both.

   V(0.5)             a VALUE with this constant in each lane
   INTS, LONGS        integers that go with a VALUE lane by lane: LONGS of 64 bits, INTS as wide as SELECT wants
   SELECT(otherwise, then, condition)   per lane; `condition` compares VALUEs or INTS, conditions join by | and &
   MASK(comparison of LONGS)            such a condition
   TO_LONGS(ints)     the same numbers; LANE_NUMBERS: LONGS 0, 1, 2, ...
   AS_INTS, AS_VALUE  float only: the same bits as the other type */
#ifndef LIB_LANES_H
#define LIB_LANES_H

#include "prelude/common.h"

#ifndef LANES
#define LANES 1
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if LANES == 1
#define VALUE REAL
#define INTS int
#define LONGS INT64
#define SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define MASK(condition) (condition)
#define TO_LONGS(ints) ((INT64)(ints))
#define LANE_NUMBERS 0
#define AS_INTS(value) AS_INT(value)
#define AS_VALUE(bits) AS_FLOAT(bits)
#else
#define VALUE JOIN(REAL, LANES)
#define LONGS JOIN(long, LANES)
#define SELECT(otherwise, then, condition) select(otherwise, then, condition)
#define TO_LONGS(ints) JOIN(convert_long, LANES)(ints)
#if DOUBLE
#define INTS LONGS
#define MASK(condition) (condition)
#else
#define INTS JOIN(int, LANES)
#define MASK(condition) JOIN(convert_int, LANES)(condition)
#define AS_INTS(value) JOIN(as_int, LANES)(value)
#define AS_VALUE(bits) JOIN(as_float, LANES)(bits)
#endif
#if LANES == 2
#define LANE_NUMBERS ((LONGS)(0, 1))
#elif LANES == 4
#define LANE_NUMBERS ((LONGS)(0, 1, 2, 3))
#elif LANES == 8
#define LANE_NUMBERS ((LONGS)(0, 1, 2, 3, 4, 5, 6, 7))
#elif LANES == 16
#define LANE_NUMBERS ((LONGS)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#endif
#endif
#define V(constant) ((VALUE)(R(constant)))

#endif
