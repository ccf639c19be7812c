/* What every kernel file includes first: the dialect of kernels/README.md on the language at hand. */
#ifndef PRELUDE_COMMON_H
#define PRELUDE_COMMON_H

#if defined(__OPENCL_VERSION__)
#include "prelude/opencl.h"
#elif defined(__CUDACC__)
#include "prelude/cuda.h"
#else
#include "prelude/host.h"
#endif

/* Element type of a program, by -D DOUBLE=0 or 1; R(0.5) is a literal of it. */
#if DOUBLE
#define REAL double
#define R(literal) literal
#else
#define REAL float
#define R(literal) literal##f
#endif

/* Integer that counts work, by -D INDEX=int or INT64. */
#ifndef INDEX
#define INDEX INT64
#endif

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
