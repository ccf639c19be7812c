"""The layers, checks and reports of `convgrad bench` and `pytest benchmarks`; no figure is tested."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from convgrad import backends, cli
from convgrad.bench import calls, command, direct, layers, machine, report, timing
from convgrad.errors import BadFormatError
from convgrad.geometry import ConvGeometry, PoolGeometry
from convgrad.memory import DeviceArray
from tests.reference import conv as reference
from tests.reference import pooling as pool_reference

ROOT = Path(__file__).parents[1]
TINY = layers.Layer("tiny", 2, ConvGeometry(7, 6, 3, 4, 3, 2, padding=(2, 1, 2, 1), sliding=(1, 2)))
PIXELS = layers.Layer("pixels", 3, ConvGeometry(3, 4, 2, 5, 1, 1))
LOPSIDED = layers.Layer("lopsided", 2, ConvGeometry(6, 9, 2, 3, 4, 3, padding=(3, 0, 1, 2), sliding=(3, 2)))
POOLS = (
    layers.PoolLayer("max", 2, "max", PoolGeometry(7, 5, 3, 3, 2, (1, 0, 2, 1), (2, 1), ceil=False)),
    layers.PoolLayer("average", 2, "average", PoolGeometry(7, 5, 3, 3, 2, (0, 0, 0, 0), (1, 2), ceil=False)),
)


@pytest.fixture
def tiny(monkeypatch):
    """`convgrad bench` takes no time, on a machine that is fit: tiny layers, short samples."""
    monkeypatch.setattr(command, "choose", lambda names: [TINY, PIXELS])
    monkeypatch.setattr(command, "two_thread_gain", lambda threads: 1.9)
    monkeypatch.setattr(timing, "LEAST_SAMPLE", 1e-9)
    monkeypatch.setattr(timing, "PAUSE", 0.0)


def window(layer):
    return {"padding": layer.geometry.padding, "sliding": layer.geometry.sliding}


# The table


def test_the_sets_hold_what_they_say():
    assert {name: len(those) for name, those in layers.SETS.items()} == {
        "eleven": 11,
        "deepbench": 8,
        "convnet": 2,
    }
    assert len({layer.name for layer in layers.ALL}) == len(layers.ALL) == 21


@pytest.mark.parametrize(("name", "size", "gflop"), [("convnet_l4", 10, 20.6), ("convnet_l5", 11, 41.1)])
def test_flops_are_those_that_convnet_benchmarks_publishes_for_batch_128(name, size, gflop):
    (layer,) = layers.choose(name)
    assert layer.geometry.output_shape[:2] == (size, size)
    assert layer.flops("forward") * 128 / layer.batch / 1e9 == pytest.approx(gflop, rel=5e-3)


@pytest.mark.parametrize("layer", [TINY, PIXELS, LOPSIDED], ids=lambda layer: layer.name)
def test_flops_and_columns_by_counting(layer):
    shapes = layer.operand_shapes
    per_output = math.prod(shapes["weights"][1:])
    outputs = math.prod(shapes["err_output"])
    assert (
        layer.flops("forward")
        == layer.flops("err_input")
        == layer.flops("weights")
        == 2 * outputs * per_output
    )
    assert layer.flops("backward") == 2 * layer.flops("forward")
    assert layer.column_bytes == 4 * per_output * outputs // layer.geometry.n_kernels


@pytest.mark.parametrize("layer", layers.ALL, ids=lambda layer: layer.name)
def test_sums_of_the_operands_are_exact_in_float32(layer):
    g = layer.geometry
    rows, columns, _ = g.output_shape
    terms = max(g.taps, g.kx * g.ky * g.n_kernels, layer.batch * rows * columns)
    assert direct.LARGEST**2 * terms + direct.LARGEST < 2**24


def test_choose_takes_layers_and_sets_once():
    names = [layer.name for layer in layers.choose("mnist,convnet,mnist,convnet_l4")]
    assert names == ["mnist", "convnet_l4", "convnet_l5"]
    assert layers.choose("all") == list(layers.ALL)


def test_choose_refuses_what_it_does_not_know():
    with pytest.raises(BadFormatError, match=r"layers must be some of alexnet2.* got 'vgg9'"):
        layers.choose("vgg1,vgg9")


# The check before the clock


@pytest.mark.parametrize("layer", [TINY, PIXELS, LOPSIDED], ids=lambda layer: layer.name)
def test_the_independent_path_agrees_with_the_oracle(layer):
    given = direct.operands(layer)
    x, w, d = given["x"], given["weights"], given["err_output"]
    want = {
        "output": reference.conv_forward(x, w, given["bias"], **window(layer)),
        "err_input": reference.conv_input_gradient(d, w, x.shape[1:3], **window(layer)),
        "weights": reference.conv_weight_gradient(x, d, (w.shape[2], w.shape[1]), **window(layer)),
        "bias": reference.bias_gradient(d),
    }
    for name, result in direct.conv_results(layer, given).items():
        np.testing.assert_array_equal(result, want[name])


@pytest.mark.parametrize("layer", POOLS, ids=lambda layer: layer.name)
def test_the_independent_pooling_agrees_with_the_oracle(layer):
    g = layer.geometry
    x = direct.whole_numbers((layer.batch, *g.input_shape), 0)
    errors = direct.whole_numbers((layer.batch, *g.output_shape), 1)
    found = direct.pool_results(layer, x, errors)
    options = {**window(layer), "ceil": g.ceil}
    output, offset = pool_reference.pool_forward(x, layer.kind, (g.kx, g.ky), **options)
    err_input = pool_reference.pool_backward(
        errors, x.shape, layer.kind, (g.kx, g.ky), offset=offset, **options
    )
    np.testing.assert_allclose(found["output"], output, rtol=1e-6)
    np.testing.assert_allclose(found["err_input"], err_input, rtol=1e-6, atol=1e-6)


def test_operands_are_whole_numbers_of_both_signs():
    x = direct.operands(TINY)["x"]
    assert set(np.unique(x)) == set(range(-direct.LARGEST, direct.LARGEST + 1))


@pytest.mark.parametrize("wrong", [1.0, np.nan])
@pytest.mark.parametrize(
    ("operation", "result"),
    [("forward", "output"), ("err_input", "err_input"), ("weights", "weights"), ("backward", "bias")],
)
def test_one_wrong_cell_is_found_and_nothing_is_timed(operation, result, wrong, monkeypatch):
    class Faulty(calls.OnBackend):
        def download(self, results):
            arrays = super().download(results)
            arrays[result].flat[-1] += wrong
            return arrays

    monkeypatch.setattr(command, "interleaved", lambda *_: pytest.fail("timed a wrong result"))
    contestants = [Faulty(backends.get("numpy"))]
    with pytest.raises(direct.WrongResultError, match=rf"{operation} of tiny.*: {result} is wrong in 1 of"):
        list(command.measure(TINY, [operation], contestants, rounds=1))


def test_a_wrong_backend_fails_the_command(tiny, monkeypatch, capsys):
    monkeypatch.setattr(DeviceArray, "get", lambda self: self.buffer + 1)
    assert cli.main(["bench", "--backend", "numpy", "--against", "none"]) == 1
    assert "forward of tiny" in capsys.readouterr().err


def test_a_wrong_shape_is_found():
    with pytest.raises(direct.WrongResultError, match=r"shape \(1,\), wanted \(2, 3\)"):
        direct.check("it", {"bias": np.zeros(1)}, {"bias": np.zeros((2, 3))})


def test_check_compares_within_a_part_of_the_largest_value():
    want = {"output": np.array([0.0, 100.0])}
    direct.check("it", {"output": np.array([0.9, 100.0])}, want, tolerance=0.01)
    with pytest.raises(direct.WrongResultError, match=r"\(0,\) must be 0.0, got 1.1"):
        direct.check("it", {"output": np.array([1.1, 100.0])}, want, tolerance=0.01)


# The clock


def test_calls_take_turns_after_a_warm_up(monkeypatch):
    monkeypatch.setattr(timing, "seconds", lambda call: call())
    made = []
    times = {"a": iter([9.0, 1.0, 2.0]), "b": iter([9.0, 3.0, 4.0])}

    def call(name):
        made.append(name)
        return next(times[name])

    samples = timing.interleaved({name: lambda name=name: call(name) for name in "ab"}, 2)
    assert made == ["a", "b", "a", "b", "a", "b"]
    assert samples == {"a": [1.0, 2.0], "b": [3.0, 4.0]}


def test_a_short_call_is_repeated_until_the_sample_is_long_enough(monkeypatch):
    monkeypatch.setattr(timing, "seconds", lambda call: call())
    durations = iter([0.5, 0.008, 0.008, 0.005])
    assert timing.interleaved({"a": lambda: next(durations)}, 1)["a"] == [pytest.approx(0.007)]


@pytest.mark.parametrize(
    ("gains", "void"),
    [
        ((1.7, 1.9), False),
        ((1.69, 1.9), True),
        ((1.9, 1.2), True),
        ((None, None), False),
        ((math.nan, 1.9), True),
    ],
)
def test_void_is_a_gain_below_the_limit_on_either_side(gains, void):
    assert timing.is_void(gains) is void


def test_the_gain_of_two_threads():
    assert timing.two_thread_gain(1) is None
    gain = timing.two_thread_gain(2, size=64, rounds=1)
    assert gain is None or gain > 0


# The report


def row(layer, ours, nchw, nhwc, gains=(1.9, 1.9)):
    return report.Row(layer, "backward", {"convgrad": ours, "NCHW": nchw, "NHWC": nhwc}, gains)


def test_ratios_are_to_the_better_layout():
    found = row(layers.ELEVEN[0], [3.0, 4.0, 8.0], [9.0, 9.0, 9.0], [1.0, 2.0, 16.0])
    assert found.layout == "NHWC"
    assert found.ratio == 4.0 / 2.0
    assert found.paired_ratio == 2.0  # of 3, 2 and 0.5
    assert found.rate("convgrad") == found.layer.flops("backward") / 4.0 / 1e9


def test_means_are_over_the_eleven_without_void_rows():
    rows = [
        row(layers.ELEVEN[0], [2.0], [1.0], [1.0]),
        row(layers.ELEVEN[1], [8.0], [4.0], [1.0]),
        row(layers.ELEVEN[2], [64.0], [1.0], [1.0], gains=(1.9, 1.0)),
        row(layers.DEEPBENCH[0], [64.0], [1.0], [1.0]),
    ]
    (mean,) = report.means(rows).values()
    assert mean == {
        "layers": 2,
        "ratio": pytest.approx(4.0),
        "paired_ratio": pytest.approx(4.0),
        "greatest_ratio": 8.0,
    }
    *_, last = report.summary(rows)
    assert last.startswith("1 of 4 rows are void and left out")
    assert rows[2].as_line().endswith("1.00 void")


def bench(capsys, *arguments):
    """Lines of the table, and the JSON object."""
    assert cli.main(["bench", "--backend", "numpy", "--rounds", "2", "--json", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    return err.splitlines(), json.loads(out.splitlines()[-1])


def test_json_holds_every_row_and_what_the_figures_depend_on(tiny, capsys, tmp_path):
    file = tmp_path / "new" / "result.json"
    lines, result = bench(capsys, "--against", "none", "--output", file)
    assert json.loads(file.read_text()) == result
    assert result["backend"] == "numpy"
    keys = {"convgrad", "commit", "date", "cpu", "cores", "threads", "system", "python", "numpy", "blas"}
    assert set(result["machine"]) == keys | {"settings", "torch"}
    named = [(found["layer"], found["operation"]) for found in result["rows"]]
    assert named == [(layer.name, operation) for layer in (TINY, PIXELS) for operation in calls.OPERATIONS]
    for found in result["rows"]:
        timed = found["timed"]["convgrad"]
        assert 0 < timed["least_ms"] <= timed["median_ms"] <= timed["greatest_ms"]
        assert timed["gflops"] == pytest.approx(found["flops"] / timed["median_ms"] / 1e6)
    assert result["void_rows"] == 0
    assert sum(line.startswith(("tiny", "pixels")) for line in lines) == len(named)


def test_rows_beside_a_low_gain_are_void(tiny, capsys, monkeypatch):
    gains = iter([1.9, 1.9, 1.2])
    monkeypatch.setattr(command, "two_thread_gain", lambda threads: next(gains))
    lines, result = bench(capsys, "--against", "none", "--operations", "weights")
    assert [(found["two_thread_gain"], found["void"]) for found in result["rows"]] == [
        ([1.9, 1.9], False),
        ([1.9, 1.2], True),
    ]
    assert result["void_rows"] == 1
    assert lines[-1].startswith("1 of 2 rows are void")


def test_without_pytorch_ratios_are_missing_and_one_line_says_so(tiny, capsys, monkeypatch):
    monkeypatch.setattr(calls.InTorch, "version", lambda: None)
    lines, result = bench(capsys, "--operations", "backward")
    assert lines.count("PyTorch is not installed: no ratios") == 1
    assert result["machine"]["torch"] is None
    assert result["geometric_mean"] == {}
    assert [found["ratio"] for found in result["rows"]] == [None, None]


def test_beside_pytorch_both_layouts_are_timed(tiny, capsys):
    pytest.importorskip("torch")
    _, result = bench(capsys)
    for found in result["rows"]:
        medians = {who: timed["median_ms"] for who, timed in found["timed"].items()}
        assert set(medians) == {"convgrad", "NCHW", "NHWC"}
        assert found["ratio"] == pytest.approx(medians["convgrad"] / min(medians["NCHW"], medians["NHWC"]))


def test_settings_that_slow_blas_are_named(tiny, capsys, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    lines, result = bench(capsys, "--against", "none", "--operations", "forward")
    assert result["machine"]["settings"]["OPENBLAS_CORETYPE"] == "Prescott"
    assert any("OPENBLAS_CORETYPE=Prescott" in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [["--layers", "vgg9"], ["--operations", "sideways"], ["--rounds", "0"], ["--against", "us"], ["--x"]],
)
def test_wrong_usage_is_told_in_one_line(arguments, capsys):
    assert cli.main(["bench", "--backend", "numpy", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_where_the_output_cannot_go_is_told_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "bench", lambda *_: pytest.fail("it was measured"))
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "result.json"):
        with pytest.raises(BadFormatError, match=f"--output {path} cannot be written"):
            command.main(["--output", str(path)])


def test_the_commit_is_that_of_a_checkout_only(tmp_path):
    assert machine.commit(tmp_path) is None


def test_the_name_of_the_cpu(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Abacus 9000\n")
    assert machine.cpu_name(tmp_path / "cpuinfo") == "Abacus 9000"
    assert machine.cpu_name(tmp_path / "none") != ""


# benchmarks/


def test_plain_pytest_leaves_benchmarks_alone(request):
    assert request.config.getini("testpaths") == ["tests"]


def test_the_benchmarks_run():
    pytest.importorskip("pytest_benchmark")
    chosen = "(mnist and weights) or resnet_mean"
    command = ["pytest", "benchmarks", "--backend", "numpy", "-q", "--benchmark-disable", "-k", chosen]
    run = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("products.py --products mnist --rounds 1", "40000, 25, 64"),
        ("training.py --net digits --batch 10 --rounds 1", "images/s"),
        ("accuracy.py --layers mnist --batch 2", "geometric mean"),
    ],
)
def test_the_scripts_run(script, told):
    if script.startswith("accuracy"):
        pytest.importorskip("torch")
    name, *arguments = script.split()
    command = [sys.executable, ROOT / "benchmarks" / name, *arguments, "--backend", "numpy"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert told in run.stdout


def test_the_command_loads_lazily():
    code = "import sys, convgrad.cli; sys.exit('convgrad.bench' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
