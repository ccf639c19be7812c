"""Operands and right results, made once per layer."""

from __future__ import annotations

import pytest

from convgrad.bench import direct
from convgrad.bench.layers import ALL, POOLS


@pytest.fixture(scope="module", params=ALL, ids=lambda layer: layer.name)
def conv_case(request):
    """(layer, operands, results that are wanted)."""
    given = direct.operands(request.param)
    return request.param, given, direct.conv_results(request.param, given)


@pytest.fixture(scope="module", params=POOLS, ids=lambda layer: layer.name)
def pool_case(request):
    """(layer, x, err_output, results that are wanted)."""
    layer = request.param
    x = direct.whole_numbers((layer.batch, *layer.geometry.input_shape), 0)
    errors = direct.whole_numbers((layer.batch, *layer.geometry.output_shape), 1)
    return layer, x, errors, direct.pool_results(layer, x, errors)


@pytest.fixture
def clock(request, backend):
    """clock(call, amount, unit): time a call and note its rate, `amount` per call in billions per second."""

    def run(call, amount, unit, **notes):
        benchmark = request.getfixturevalue("benchmark")  # which complains if a failed check leaves it unused
        benchmark.extra_info |= {"backend": backend.name, "device": backend.device, **notes}
        benchmark.pedantic(call, rounds=5, warmup_rounds=1)
        if benchmark.stats:  # none under --benchmark-disable
            benchmark.extra_info[unit] = amount / benchmark.stats.stats.median / 1e9

    return run
