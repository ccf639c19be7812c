"""Convolution: forward and each gradient, checked before they are timed."""

from __future__ import annotations

import pytest

from convgrad.bench import calls, direct


@pytest.mark.parametrize("operation", calls.OPERATIONS)
def test_conv(conv_case, operation, backend, clock):
    layer, given, want = conv_case
    who = calls.OnBackend(backend)
    call = who.call(layer, operation, who.upload(given))
    direct.check(f"{operation} of {layer.name}", who.download(call()), want)
    clock(call, layer.flops(operation), "GFLOP/s", column_bytes=layer.column_bytes)
