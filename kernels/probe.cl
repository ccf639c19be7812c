/* What `convgrad check` asks of a device before it looks at any layer: arithmetic, a tree, addresses.

   probe_arithmetic
     a, b, c  `count` VALUEs each
     y        6 x count: FMA(a, b, c); a * b + c; c - a * b; a * b; a + c; whichever of a and c is smaller
     One work-item per group; group i owns column i.

   probe_tree
     x        groups x TREE elements
     y        one element per group: the sums of pairs 2i and 2i + 1, of pairs of these, and so on
     TREE work-items per group, which sum from one array into another: written in place, this ascending form is
     miscompiled by PoCL 3.1, so no kernel may be written so.

   probe_address
     y        one element per group: x[row * stride - start + group], whose product exceeds 32 bits
     One work-item per group. */
#include "lib/lanes.h"

#define TREE 64

KERNEL(1, 1, 1) void probe_arithmetic(
    GLOBAL const VALUE *RESTRICT a, GLOBAL const VALUE *RESTRICT b, GLOBAL const VALUE *RESTRICT c,
    GLOBAL VALUE *RESTRICT y, int count) {
  const int i = GROUP(0);
  const VALUE product = a[i] * b[i];
  y[i] = FMA(a[i], b[i], c[i]);
  y[count + i] = a[i] * b[i] + c[i];
  y[2 * count + i] = c[i] - a[i] * b[i];
  y[3 * count + i] = product;
  y[4 * count + i] = a[i] + c[i];
  y[5 * count + i] = SELECT(c[i], a[i], a[i] < c[i]);
}

KERNEL(TREE, 1, 1) void probe_tree(GLOBAL const REAL *RESTRICT x, GLOBAL REAL *RESTRICT y) {
  LOCAL REAL from[TREE], to[TREE];
  const int item = ITEM(0);
  from[item] = x[GROUP(0) * TREE + item];
  BARRIER();
  for (int n = TREE / 2; n > 0; n /= 2) {
    if (item < n) to[item] = from[2 * item] + from[2 * item + 1];
    BARRIER();
    if (item < n) from[item] = to[item];
    BARRIER();
  }
  if (item == 0) y[GROUP(0)] = from[0];
}

KERNEL(1, 1, 1) void probe_address(
    GLOBAL const REAL *RESTRICT x, GLOBAL REAL *RESTRICT y, int row, int stride, INT64 start) {
  y[GROUP(0)] = x[(INT64)row * stride - start + GROUP(0)];
}
