"""Known values of the activations where common formulas fail; worked out with 80 digits.

log(1 + exp(s)) overflows from 89 on in float32 and is 0 below -17; 1 - exp(-y) loses all digits there
(tracel-ai/burn#5373, sonots/cumo#481). Every s is a float32.
"""

from __future__ import annotations

import math

# s, softplus(s), and its derivative, which is sigmoid(s). Veles took the identity above 15.
SOFTPLUS = (
    (-104.0, 6.813556821545298e-46, 6.813556821545298e-46),
    (-88.0, 6.054601895401186e-39, 6.054601895401186e-39),
    (-50.0, 1.9287498479639178e-22, 1.9287498479639178e-22),
    (-20.0, 2.061153620314381e-09, 2.0611536181902037e-09),
    (-17.0, 4.139937633089748e-08, 4.1399375473943306e-08),
    (-16.0, 1.1253516838717681e-07, 1.12535162055095e-07),
    (-10.0, 4.539889921686465e-05, 4.5397868702434395e-05),
    (-1.0, 0.3132616875182228, 0.2689414213699951),
    (-0.125, 0.6325990353171691, 0.46879062662624377),
    (0.0, 0.6931471805599453, 0.5),
    (1.0, 1.3132616875182228, 0.7310585786300049),
    (15.0, 15.000000305902274, 0.9999996940977731),
    (15.000100135803223, 15.000100441674865, 0.9999996941284033),
    (20.0, 20.000000002061153, 0.9999999979388464),
    (88.0, 88.0, 1.0),
    (89.0, 89.0, 1.0),
    (10000.0, 10000.0, 1.0),
)

# s and the scaled hyperbolic tangent of it.
TANH = (
    (-20.0, -1.715899999990974),
    (-1.0, -0.9999217117439434),
    (-0.125, -0.14264738396875884),
    (-0.0010000000474974513, -0.0011438188249077218),
    (0.0, 0.0),
    (0.0625, 0.07144734995572657),
    (0.5, 0.5516324215588826),
    (1.0, 0.9999217117439434),
    (3.0, 1.65415067402669),
    (8.0, 1.715819924324674),
)

# The output at -inf and at +inf; NaN gives NaN in all of them.
LIMITS = {
    "linear": (-math.inf, math.inf),
    "tanh": (-1.7159, 1.7159),
    "sigmoid": (0.0, 1.0),
    "relu": (0.0, math.inf),
    "strict_relu": (0.0, math.inf),
}

# activation, output, factor: at saturation the factor of tanh is a little above zero, neither zero nor below;
# strict_relu is off at zero of either sign.
FACTORS = (
    ("tanh", 1.7159, 1.2e-9),
    ("tanh", 0.0, 1.14381894),
    ("sigmoid", 0.25, 0.1875),
    ("sigmoid", 1.0, 0.0),
    ("relu", 0.6931471805599453, 0.5),
    ("relu", 0.0, 0.0),
    ("strict_relu", 2.5, 1.0),
    ("strict_relu", 0.0, 0.0),
    ("strict_relu", -0.0, 0.0),
)
