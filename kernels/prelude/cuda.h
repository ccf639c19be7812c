/* CUDA C++, compiled with -fmad=false. */
#define KERNEL(x, y, z) extern "C" __global__ __launch_bounds__((x) * (y) * (z))
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define RESTRICT __restrict__
#define GROUP(axis) ((int)((axis) == 0 ? blockIdx.x : (axis) == 1 ? blockIdx.y : blockIdx.z))
#define ITEM(axis) ((int)((axis) == 0 ? threadIdx.x : (axis) == 1 ? threadIdx.y : threadIdx.z))
#define BARRIER() __syncthreads()
#if DOUBLE
#define FMA(a, b, c) fma(a, b, c)
#else
#define FMA(a, b, c) fmaf(a, b, c)
#endif
#define UNROLL _Pragma("unroll")
#define AS_INT(value) __float_as_int(value)
#define AS_FLOAT(bits) __int_as_float(bits)
#define INT64 long long
