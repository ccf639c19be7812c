/* The tree of docs/numerics.md as a stack of nodes: v[i] = v[2i] + v[2i+1] from level to level, an odd last node
   passes through. A node is SIZE values of type VALUE, both defined before this is included. */
#ifndef LIB_TREE_H
#define LIB_TREE_H

/* Put node number `count` (0, 1, ...) of its list on the stack; returns the new top. `node` is spent. */
FUNCTION int push(VALUE (*stack)[SIZE], int top, int count, VALUE *node) {
  for (; count & 1; count >>= 1) {
    top--;
    for (int i = 0; i < SIZE; i++) node[i] = stack[top][i] + node[i];
  }
  for (int i = 0; i < SIZE; i++) stack[top][i] = node[i];
  return top + 1;
}

/* The list from `base` to `top` has ended: leave its sum at `base`. An empty list becomes zeros. */
FUNCTION void finish(VALUE (*stack)[SIZE], int base, int top) {
  if (top == base)
    for (int i = 0; i < SIZE; i++) stack[base][i] = (VALUE)(0);
  for (; top > base + 1; top--)
    for (int i = 0; i < SIZE; i++) stack[top - 2][i] = stack[top - 2][i] + stack[top - 1][i];
}

#endif
