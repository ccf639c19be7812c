/* OpenCL C 1.2. */
#pragma OPENCL FP_CONTRACT OFF
#if DOUBLE && defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define KERNEL(x, y, z) __kernel __attribute__((reqd_work_group_size(x, y, z)))
#define FUNCTION static inline
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
#define GROUP(axis) ((int)get_group_id(axis))
#define ITEM(axis) ((int)get_local_id(axis))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define FMA(a, b, c) fma(a, b, c)
#define UNROLL __attribute__((opencl_unroll_hint))
#define AS_INT(value) as_int(value)
#define AS_FLOAT(bits) as_float(bits)
#define INT64 long
