/* exp, expm1, tanh, sigmoid and softplus of a VALUE (lib/lanes.h): exp_of(x) and so on.

   float: one sequence of +, -, *, fma, comparisons, selections and the bits of powers of two, the same in every
   language and for every number of lanes, so that every device has the same bits: at most 1 ulp off for exp and
   2 ulp for the others, for every float. No division and no function of a library. Every operation rounds, in the
   order written. Polynomials are minimax fits; the last digits of their coefficients count.
   double: the language's own functions. */
#ifndef LIB_ELEMENTARY_H
#define LIB_ELEMENTARY_H

#include "lib/lanes.h"

#if DOUBLE

FUNCTION VALUE exp_of(VALUE x) { return exp(x); }

FUNCTION VALUE expm1_of(VALUE x) { return expm1(x); }

FUNCTION VALUE tanh_of(VALUE x) { return tanh(x); }

FUNCTION VALUE sigmoid_of(VALUE x) {
  const VALUE e = exp(SELECT(-x, x, x < V(0.0))); /* at most 1: neither tail overflows */
  const VALUE y = V(1.0) / (V(1.0) + e);
  return SELECT(y, y * e, x < V(0.0));
}

FUNCTION VALUE softplus_of(VALUE x) {
  return SELECT(V(0.0), x, x > V(0.0)) + log1p(exp(SELECT(-x, x, x < V(0.0))));
}

#else

/* 1.5 * 2^23: a sum with it has its whole part in the low bits. */
#define SHIFTER V(0x1.8p23)

/* exp(x) = 2^exponent * (1 + rest + rest_low), |rest| <= ln2 / 2; rest_low is what rounding took from rest. */
typedef struct {
  VALUE rest, rest_low;
  INTS exponent;
} Reduced;

FUNCTION Reduced reduced(VALUE x) {
  Reduced result;
  const VALUE shifted = FMA(x, V(0x1.715476p+0), SHIFTER);
  const VALUE n = shifted - SHIFTER;
  const VALUE high = FMA(n, V(-0x1.62e400p-1), x);
  result.rest = FMA(n, V(-0x1.7f7d1cp-20), high);
  result.rest_low = FMA(n, V(-0x1.7f7d1cp-20), high - result.rest);
  result.exponent = AS_INTS(shifted) - AS_INTS(SHIFTER);
  return result;
}

/* (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2. */
FUNCTION VALUE exp_tail(VALUE r) {
  VALUE q = FMA(V(0x1.9df772p-13), r, V(0x1.6d4cc4p-10));
  q = FMA(q, r, V(0x1.111310p-7));
  q = FMA(q, r, V(0x1.5554e8p-5));
  q = FMA(q, r, V(0x1.555554p-3));
  return FMA(q, r, V(0.5));
}

/* 2^k for -126 <= k <= 127. */
FUNCTION VALUE power_of_two(INTS k) { return AS_VALUE((k + 127) << 23); }

/* exp(x) = (high + low) * first * second, the latter two powers of two that never leave the normal range. */
typedef struct {
  VALUE high, low, first, second;
} Exponential;

/* For -105 <= x <= 90; a NaN gives NaN. */
FUNCTION Exponential exponential(VALUE x) {
  Exponential e;
  const Reduced x_reduced = reduced(x);
  const VALUE r = x_reduced.rest;
  const VALUE sum = V(1.0) + r;
  const VALUE lost = r - (sum - V(1.0));
  const VALUE rest = FMA(r * r, exp_tail(r), lost) + x_reduced.rest_low;
  const INTS part = x_reduced.exponent >> 1;
  e.high = sum + rest;
  e.low = rest - (e.high - sum);
  e.first = power_of_two(part);
  e.second = power_of_two(x_reduced.exponent - part);
  return e;
}

FUNCTION VALUE exp_of(VALUE x) {
  const VALUE above = SELECT(x, V(-105.0), x < V(-105.0));
  const Exponential e = exponential(SELECT(above, V(90.0), above > V(90.0)));
  return (e.high * e.first) * e.second;
}

FUNCTION VALUE expm1_of(VALUE x) {
  const VALUE above = SELECT(x, V(-20.0), x < V(-20.0));
  const Reduced x_reduced = reduced(SELECT(above, V(89.0), above > V(89.0)));
  const VALUE r = x_reduced.rest;
  const INTS k = x_reduced.exponent;
  const VALUE scale = power_of_two(SELECT(k, k - 1, k > 64)); /* 2^128 is no float: the last factor comes after */
  const VALUE y = FMA(FMA(r * r, exp_tail(r), r), scale, scale - V(1.0));
  const VALUE scaled = y * SELECT(V(1.0), V(2.0), k > 64);
  return SELECT(scaled, x, SELECT(x, -x, x < V(0.0)) < V(0x1p-25)); /* keeps the sign of zero */
}

/* 1 / z for 1 <= z <= 2: a cubic and two of Newton's steps. */
FUNCTION VALUE reciprocal(VALUE z) {
  VALUE y = FMA(FMA(FMA(V(-0x1.c65256p-3), z, V(0x1.54bdcap+0)), z, V(-0x1.783c44p+1)), z, V(0x1.6a09bap+1));
  y = FMA(y, FMA(-z, y, V(1.0)), y);
  return FMA(y, FMA(-z, y, V(1.0)), y);
}

/* tanh(x) for |x| < 0.6. */
FUNCTION VALUE small_tanh(VALUE x, VALUE square) {
  VALUE p = FMA(V(-0x1.828776p-8), square, V(0x1.54c3c2p-6));
  p = FMA(p, square, V(-0x1.b89abap-5));
  p = FMA(p, square, V(0x1.1109bep-3));
  p = FMA(p, square, V(-0x1.55553ep-2));
  return SELECT(FMA(x * square, p, x), x, x == V(0.0)); /* the sum of zeros would lose their sign */
}

FUNCTION VALUE tanh_of(VALUE x) {
  const VALUE magnitude = SELECT(x, -x, x < V(0.0));
  const VALUE bounded = SELECT(magnitude, V(10.0), magnitude > V(10.0));
  const Exponential e = exponential(V(-2.0) * bounded);
  const VALUE power = (e.high * e.first) * e.second; /* 1 - 2 power / (1 + power) */
  const VALUE large = FMA(V(-2.0) * power, reciprocal(V(1.0) + power), V(1.0));
  const VALUE with_sign = SELECT(large, -large, x < V(0.0));
  return SELECT(with_sign, small_tanh(x, magnitude * magnitude), magnitude < V(0.6));
}

/* exp(-|x|), which is at most 1. */
FUNCTION Exponential falling(VALUE x) {
  const VALUE magnitude = SELECT(x, -x, x < V(0.0));
  return exponential(-SELECT(magnitude, V(105.0), magnitude > V(105.0)));
}

/* 1 / (1 + E) or E / (1 + E) with E = exp(-|x|), corrected by the remainder of the division; E keeps its second
   power of two back, so that a subnormal result rounds once. */
FUNCTION VALUE sigmoid_of(VALUE x) {
  const Exponential e = falling(x);
  const VALUE partial = e.high * e.first;
  const VALUE power = partial * e.second;
  const VALUE sum = V(1.0) + power;
  const VALUE lost = power - (sum - V(1.0));
  const VALUE inverse = reciprocal(sum);
  const VALUE numerator = SELECT(V(1.0), partial, x < V(0.0));
  const VALUE quotient = numerator * inverse;
  const VALUE remainder = FMA(-lost, quotient, FMA(-sum, quotient, numerator));
  const VALUE y = FMA(remainder, inverse, quotient);
  return SELECT(y, y * e.second, x < V(0.0));
}

/* (log(1 + f) - f) / f^2 for -1/4 <= f <= 1/2. */
FUNCTION VALUE log1p_tail(VALUE f) {
  VALUE p = FMA(V(0x1.343c94p-5), f, V(-0x1.751bdcp-4));
  p = FMA(p, f, V(0x1.df23d6p-4));
  p = FMA(p, f, V(-0x1.04ac76p-3));
  p = FMA(p, f, V(0x1.24630ap-3));
  p = FMA(p, f, V(-0x1.5519d6p-3));
  p = FMA(p, f, V(0x1.999768p-3));
  p = FMA(p, f, V(-0x1.00006ep-2));
  p = FMA(p, f, V(0x1.55555ap-2));
  return FMA(p, f, V(-0.5));
}

/* log(1 + power + low) for 0 <= power <= 1; from 1/2 on it is ln2 + log(1 + f) with 1 + f = (1 + power) / 2. */
FUNCTION VALUE log_of_one_and(VALUE power, VALUE low) {
  const VALUE f = SELECT(FMA(V(0.5), power, V(-0.5)), power, power < V(0.5));
  const VALUE f_low = SELECT(V(0.5) * low, low, power < V(0.5));
  const VALUE rest = FMA(f * f, log1p_tail(f), FMA(-f, f_low, f_low));
  const VALUE large = V(0x1.62e430p-1) + (f + (rest - V(0x1.05c610p-29)));
  return SELECT(large, f + rest, power < V(0.5));
}

FUNCTION VALUE softplus_of(VALUE x) {
  const Exponential e = falling(x);
  const VALUE power = (e.high * e.first) * e.second, low = (e.low * e.first) * e.second;
  const VALUE y = log_of_one_and(power, low);
  return SELECT(x + y, y, x <= V(0.0));
}

#endif

#endif
