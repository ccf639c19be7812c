/* C++ on the host, for compilers' warnings only: nothing here runs. */
#include <cmath>
#include <cstring>

#define KERNEL(x, y, z) extern "C" __attribute__((unused))
#define FUNCTION static inline
#define GLOBAL
#define LOCAL static
#define RESTRICT __restrict__
int GROUP(int axis);
int ITEM(int axis);
void BARRIER();
#define FMA(a, b, c) std::fma(a, b, c)
#define UNROLL
#define INT64 long long
inline int AS_INT(float value) { int bits; std::memcpy(&bits, &value, sizeof bits); return bits; }
inline float AS_FLOAT(int bits) { float value; std::memcpy(&value, &bits, sizeof value); return value; }
