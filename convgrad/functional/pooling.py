"""Pooling and its gradient.

`x` (N, H, W, C) -> output (N, OH, OW, C). The window of output (oy, ox) covers rows
`oy * sliding_y - top + ky * dilation_y`, columns likewise; its cells are those inside the image.

- kind: "max", "maxabs" (largest magnitude, with its sign) or "average"; kernel: (x, y);
- sliding: None = kernel;
- ceil: one more window where the last step is not filled, unless it would start beyond the image and its
  left (top) padding;
- count_include_pad: an average divides by the cells inside the padded image, not inside the image.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from convgrad.errors import BadFormatError
from convgrad.functional.calls import COMMON, AnyArray, Call, Pair, Quad, documented
from convgrad.geometry import POOL_KINDS, PoolGeometry
from convgrad.geometry.checks import option, rank, whole_numbers
from convgrad.geometry.windows import check_offset


class Pooled(NamedTuple):
    """The result of pool_forward: `offset` is int64 like output, None for "average"."""

    output: Any
    offset: Any


@documented(__doc__, COMMON)
def pool_forward(
    x: AnyArray,
    kind: str,
    kernel: Pair,
    *,
    sliding: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    ceil: bool = True,
    count_include_pad: bool = False,
    backend: Any = None,
    numerics: str = "fast",
) -> Pooled:
    """Output (N, OH, OW, C) and the winners' flat indices into the whole of x.

    The first maximum in raster order wins; a NaN wins over numbers, the first NaN first.
    """
    call = Call(backend, numerics, x=x)
    option("kind", kind, POOL_KINDS)
    rank("x", x, "(N, H, W, C)")
    window: Any = {"sliding": sliding, "padding": padding, "dilation": dilation}
    geometry = PoolGeometry.of(x.shape, kernel, **window, ceil=ceil, count_include_pad=count_include_pad)
    shape = (x.shape[0], *geometry.output_shape)
    out, offset = call.empty(shape), None if kind == "average" else call.empty(shape, np.int64)
    call.operations.pool.forward(*call.buffers(), out, offset, geometry, kind, batch=None)
    return Pooled(call.result(out), call.result(offset))


@documented(__doc__, COMMON)
def pool_backward(
    err_output: AnyArray,
    input_shape: tuple[int, int, int, int],
    kind: str,
    kernel: Pair,
    *,
    offset: AnyArray | None = None,
    sliding: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    ceil: bool = True,
    count_include_pad: bool = False,
    backend: Any = None,
    numerics: str = "fast",
) -> Any:
    """err_input of `input_shape` (N, H, W, C) from err_output (N, OH, OW, C).

    Errors go to the winners that `offset` names (needed for "max" and "maxabs"), or in equal parts to the
    cells of an average. Errors that meet in a cell are added.
    """
    call = Call(backend, numerics, ("offset",), err_output=err_output, offset=offset)
    option("kind", kind, POOL_KINDS)
    shape = whole_numbers("input_shape", input_shape, ("N", "H", "W", "C"), least=0)
    window: Any = {"sliding": sliding, "padding": padding, "dilation": dilation}
    geometry = PoolGeometry.of(shape, kernel, **window, ceil=ceil, count_include_pad=count_include_pad)
    geometry.check_output("err_output", err_output, shape[0])
    if (offset is None) != (kind == "average"):
        raise BadFormatError(
            f"offset must be {_OFFSETS[kind]} for kind {kind!r}, got {type(offset).__name__}"
        )
    if offset is not None:
        check_offset(offset, geometry, shape[0])
    out = call.empty(shape)
    call.operations.pool.backward(*call.buffers(), out, geometry, kind, batch=None)
    return call.result(out)


_OFFSETS = {kind: "None" if kind == "average" else "that of pool_forward" for kind in POOL_KINDS}
