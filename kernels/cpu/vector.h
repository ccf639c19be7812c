/* Vectors of LANES elements, by -D LANES=4, 8 or 16; OpenCL only. */
#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VECTOR JOIN(REAL, LANES)
#define LOAD(source) JOIN(vload, LANES)(0, source)
#define STORE(value, target) JOIN(vstore, LANES)(value, 0, target)

#endif
