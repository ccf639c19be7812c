"""exp, expm1, tanh, sigmoid and softplus of float32, with the bits that kernels give.

The twin of kernels/lib/elementary.h, its part for float: the same operations in the same order on the same
coefficients, each rounded to float32. At most 1 ulp off for exp and 2 ulp for the others. NaN stays NaN, of
whatever bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgrad.numerics.fma import Singles, fma

Ints = NDArray[np.int32]
Function = Callable[[Singles], Singles]


def _single(text: str) -> np.float32:
    return np.float32(float.fromhex(text))


def _singles(*texts: str) -> tuple[np.float32, ...]:
    return tuple(map(_single, texts))


_BLOCK = 2**14  # values computed on at once: what is between stays in the cache

_SHIFTER = _single("0x1.8p23")  # a sum with it has its whole part in the low bits
_LOG2_E = _single("0x1.715476p+0")
_LN2_HIGH, _LN2_LOW = _singles("0x1.62e400p-1", "0x1.7f7d1cp-20")
_LN2, _LN2_EXCESS = _singles("0x1.62e430p-1", "0x1.05c610p-29")

# Polynomials, the highest power first.
_EXP_TAIL = _singles(
    "0x1.9df772p-13", "0x1.6d4cc4p-10", "0x1.111310p-7", "0x1.5554e8p-5", "0x1.555554p-3", "0x1p-1"
)
_RECIPROCAL = _singles("-0x1.c65256p-3", "0x1.54bdcap+0", "-0x1.783c44p+1", "0x1.6a09bap+1")
_SMALL_TANH = _singles("-0x1.828776p-8", "0x1.54c3c2p-6", "-0x1.b89abap-5", "0x1.1109bep-3", "-0x1.55553ep-2")
_LOG1P_TAIL = _singles(
    *("0x1.343c94p-5", "-0x1.751bdcp-4", "0x1.df23d6p-4", "-0x1.04ac76p-3", "0x1.24630ap-3"),
    *("-0x1.5519d6p-3", "0x1.999768p-3", "-0x1.00006ep-2", "0x1.55555ap-2", "-0x1p-1"),
)

_HALF, _ONE, _TWO = _singles("0x1p-1", "0x1p+0", "0x1p+1")
_EXPM1_SMALL = _single("0x1p-25")
_TANH_SMALL = np.float32(0.6)


def _of_any_shape(function: Function) -> Function:
    """The function of a line of values, for arrays of any shape; Inf and NaN are values here."""

    @wraps(function)
    def applied(x: Singles) -> Singles:
        line = np.ravel(x)
        y = np.empty_like(line)
        with np.errstate(all="ignore"):
            for start in range(0, line.size, _BLOCK):
                y[start : start + _BLOCK] = function(line[start : start + _BLOCK])
        return y.reshape(np.shape(x))

    return applied


@_of_any_shape
def exp(x: Singles) -> Singles:
    """e ** x."""
    return _scaled(_exponential(_clipped(x, -105, 90)))


@_of_any_shape
def expm1(x: Singles) -> Singles:
    """e ** x - 1, as close for small x, -0.0 for -0.0."""
    r, _, k = _reduced(_clipped(x, -20, 89))
    scale = _power_of_two(np.where(k > 64, k - 1, k))  # 2**128 is no float: the last factor comes after
    y = fma(fma(r * r, _polynomial(_EXP_TAIL, r), r), scale, scale - _ONE)
    scaled = y * np.where(k > 64, _TWO, _ONE)
    return np.where(_magnitude(x) < _EXPM1_SMALL, x, scaled)  # keeps the sign of zero


@_of_any_shape
def tanh(x: Singles) -> Singles:
    """Hyperbolic tangent, -0.0 for -0.0."""
    magnitude = _magnitude(x)
    bounded = np.where(magnitude > 10, np.float32(10), magnitude)
    power = _scaled(_exponential(-_TWO * bounded))  # 1 - 2 power / (1 + power)
    large = fma(-_TWO * power, _reciprocal(_ONE + power), _ONE)
    with_sign = np.where(x < 0, -large, large)
    return np.where(magnitude < _TANH_SMALL, _small_tanh(x, magnitude * magnitude), with_sign)


@_of_any_shape
def sigmoid(x: Singles) -> Singles:
    """1 / (1 + E), for x < 0 E / (1 + E), with E = exp(-|x|), corrected by the remainder of the division.

    E keeps its second power of two back, so that a subnormal result rounds once.
    """
    e = _falling(x)
    partial = e.high * e.first
    power = partial * e.second
    total = _ONE + power
    lost = power - (total - _ONE)
    inverse = _reciprocal(total)
    numerator = np.where(x < 0, partial, _ONE)
    quotient = numerator * inverse
    remainder = fma(-lost, quotient, fma(-total, quotient, numerator))
    y = fma(remainder, inverse, quotient)
    return np.where(x < 0, y * e.second, y)


@_of_any_shape
def softplus(x: Singles) -> Singles:
    """log(1 + exp(x))."""
    e = _falling(x)
    y = _log_of_one_and(_scaled(e), (e.low * e.first) * e.second)
    return np.where(x <= 0, y, x + y)


class _Reduced(NamedTuple):
    """exp(x) = 2**exponent * (1 + rest + rest_low); rest_low is what rounding took from rest."""

    rest: Singles  # at most ln2 / 2
    rest_low: Singles
    exponent: Ints


class _Exponential(NamedTuple):
    """exp(x) = (high + low) * first * second, the latter two powers of two, both normal numbers."""

    high: Singles
    low: Singles
    first: Singles
    second: Singles


def _reduced(x: Singles) -> _Reduced:
    shifted = fma(x, _LOG2_E, _SHIFTER)
    n = shifted - _SHIFTER
    high = fma(n, -_LN2_HIGH, x)
    rest = fma(n, -_LN2_LOW, high)
    rest_low = fma(n, -_LN2_LOW, high - rest)
    return _Reduced(rest, rest_low, shifted.view(np.int32) - _SHIFTER.view(np.int32))


def _exponential(x: Singles) -> _Exponential:
    """For -105 <= x <= 90; a NaN gives NaN."""
    r, r_low, exponent = _reduced(x)
    total = _ONE + r
    lost = r - (total - _ONE)
    rest = fma(r * r, _polynomial(_EXP_TAIL, r), lost) + r_low
    high = total + rest
    part = exponent >> 1
    return _Exponential(high, rest - (high - total), _power_of_two(part), _power_of_two(exponent - part))


def _falling(x: Singles) -> _Exponential:
    """exp(-|x|), which is at most 1."""
    magnitude = _magnitude(x)
    return _exponential(-np.where(magnitude > 105, np.float32(105), magnitude))


def _scaled(e: _Exponential) -> Singles:
    return (e.high * e.first) * e.second


def _power_of_two(k: Ints) -> Singles:
    """2**k for -126 <= k <= 127."""
    return ((k + 127) << 23).view(np.float32)


def _reciprocal(z: Singles) -> Singles:
    """1 / z for 1 <= z <= 2: a cubic and two of Newton's steps."""
    y = _polynomial(_RECIPROCAL, z)
    for _ in range(2):
        y = fma(y, fma(-z, y, _ONE), y)
    return y


def _small_tanh(x: Singles, square: Singles) -> Singles:
    """tanh(x) for |x| < 0.6."""
    y = fma(x * square, _polynomial(_SMALL_TANH, square), x)
    return np.where(x == 0, x, y)  # the sum of zeros would lose their sign


def _log_of_one_and(power: Singles, low: Singles) -> Singles:
    """log(1 + power + low) for 0 <= power <= 1.

    From 1/2 on it is ln2 + log(1 + f) with 1 + f = (1 + power) / 2.
    """
    small = power < _HALF
    f = np.where(small, power, fma(_HALF, power, -_HALF))
    f_low = np.where(small, low, _HALF * low)
    rest = fma(f * f, _polynomial(_LOG1P_TAIL, f), fma(-f, f_low, f_low))
    large = _LN2 + (f + (rest - _LN2_EXCESS))
    return np.where(small, f + rest, large)


def _polynomial(coefficients: tuple[np.float32, ...], x: Singles) -> Singles:
    value: Singles = np.asarray(coefficients[0])
    for coefficient in coefficients[1:]:
        value = fma(value, x, coefficient)
    return value


def _clipped(x: Singles, low: int, high: int) -> Singles:
    above: Singles = np.where(x < low, np.float32(low), x)
    return np.where(above > high, np.float32(high), above)


def _magnitude(x: Singles) -> Singles:
    """|x|, but -0.0 stays."""
    return np.where(x < 0, -x, x)
