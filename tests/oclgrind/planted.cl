/* Three faults and a kernel without one, to see that they are found. x: 64 floats, y: 64 floats; groups of 16. */

/* The neighbour's cell is read without a barrier after it was written. */
__kernel void race(__global const float *x, __global float *y) {
  __local float s[16];
  const int l = get_local_id(0);
  s[l] = x[get_global_id(0)];
  y[get_global_id(0)] = s[(l + 1) % 16];
}

/* The last item reads what follows x. */
__kernel void past_the_end(__global const float *x, __global float *y) { y[get_global_id(0)] = x[get_global_id(0) + 1]; }

/* Half of s was never written. */
__kernel void uninitialized(__global const float *x, __global float *y) {
  __local float s[16];
  const int l = get_local_id(0);
  if (l < 8) s[l] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = s[l];
}

/* What race wants to be; values that were never written are not used. */
__kernel void sound(__global const float *x, __global float *y) {
  __local float s[32];
  const int l = get_local_id(0);
  s[l] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = l < 15 ? s[l + 1] : 0.0f;
}
