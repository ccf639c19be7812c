"""Pooling: layers of known nets, forward and backward, checked before they are timed."""

from __future__ import annotations

from functools import partial

from convgrad import functional
from convgrad.bench import direct

TOLERANCE = 1e-6  # the quotients of an average are not exact


def window(layer):
    g = layer.geometry
    return {
        "kind": layer.kind,
        "kernel": (g.kx, g.ky),
        "sliding": g.sliding,
        "padding": g.padding,
        "ceil": g.ceil,
    }


def timed(call, backend):
    def wait_too():
        result = call()
        backend.synchronize()
        return result

    return wait_too


def test_pool_forward(pool_case, backend, clock):
    layer, x, _, want = pool_case
    call = timed(partial(functional.pool_forward, backend.array(x), **window(layer)), backend)
    direct.check(layer.name, {"output": call().output.get()}, want, TOLERANCE)
    clock(call, layer.least_bytes, "GB/s")


def test_pool_backward(pool_case, backend, clock):
    layer, x, errors, want = pool_case
    offset = functional.pool_forward(backend.array(x), **window(layer)).offset
    options = {"input_shape": x.shape, "offset": offset, **window(layer)}
    call = timed(partial(functional.pool_backward, backend.array(errors), **options), backend)
    direct.check(layer.name, {"err_input": call().get()}, want, TOLERANCE)
    clock(call, layer.least_bytes, "GB/s")
