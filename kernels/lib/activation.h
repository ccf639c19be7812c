/* The activations of layers, and their derivative factors as functions of the output, of VALUEs (lib/lanes.h).
   `activation` counts convgrad.interfaces.ACTIVATIONS; it is the same for all work-items of a launch. */
#ifndef LIB_ACTIVATION_H
#define LIB_ACTIVATION_H

#include "lib/elementary.h"

#define LINEAR 0
#define TANH 1
#define SIGMOID 2
#define SOFTPLUS 3 /* "relu" of the layers */
#define STRICT_RELU 4

/* The output for the sum s. */
FUNCTION VALUE ACTIVATE(int activation, VALUE s) {
  switch (activation) {
  case TANH:
    return V(1.7159) * tanh_of(V(0.6666) * s);
  case SIGMOID:
    return sigmoid_of(s);
  case SOFTPLUS:
    return softplus_of(s);
  case STRICT_RELU:
    return SELECT(SELECT(V(0.0), s, s > V(0.0)), s, s != s); /* NaN stays */
  default:
    return s;
  }
}

/* err_output d behind the activation whose output is y: d * factor(y), or a choice for strict relu. */
FUNCTION VALUE FACTOR(int activation, VALUE d, VALUE y) {
  switch (activation) {
  case TANH:
    return d * ((y * y) * V(-0.388484177) + V(1.14381894));
  case SIGMOID:
    return d * (y * (V(1.0) - y));
  case SOFTPLUS:
    return d * -expm1_of(-y);
  case STRICT_RELU:
    return SELECT(SELECT(V(0.0), d, y > V(0.0)), y, y != y); /* NaN stays; Inf of a dead output does not */
  default:
    return d;
  }
}

#endif
