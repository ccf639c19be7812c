/* Work that is cut into stretches: a group of ITEMS work-items has `stretch` elements next to one another. ITEMS, by
   -D, is 64 for GPUs, where neighbours then touch neighbouring memory, and 1 for CPUs, whose compilers make vectors
   of the loop

     for (INT64 i = FIRST(stretch); i < END(stretch, count); i += ITEMS) */
#ifndef LIB_STRETCH_H
#define LIB_STRETCH_H

#include "prelude/common.h"

#ifndef ITEMS
#define ITEMS 64
#endif

#define FIRST(stretch) ((INT64)GROUP(0) * (stretch) + ITEM(0))
#define END(stretch, count) MIN(((INT64)GROUP(0) + 1) * (stretch), count)

#endif
