/* VALUE: LANES elements of type REAL that are computed on together; LANES, by -D or #define, is 1 (a scalar, in
   every language) or a length of OpenCL's vectors. What is written with these words serves both.

   V(0.5): a VALUE with this constant in each lane. SELECT(otherwise, then, condition): per lane; `condition` is a
   comparison of VALUEs or INTS. INTS: the integers that have the bits of a VALUE. */
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
#define SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#else
#define VALUE JOIN(REAL, LANES)
#define SELECT(otherwise, then, condition) select(otherwise, then, condition)
#endif
#define V(constant) ((VALUE)(R(constant)))

#if !DOUBLE && LANES == 1
#define INTS int
#define AS_INTS(value) AS_INT(value)
#define AS_VALUE(bits) AS_FLOAT(bits)
#elif !DOUBLE
#define INTS JOIN(int, LANES)
#define AS_INTS(value) JOIN(as_int, LANES)(value)
#define AS_VALUE(bits) JOIN(as_float, LANES)(bits)
#endif

#endif
