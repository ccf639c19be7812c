"""The layers that are timed.

eleven: layers of well-known nets, and two small ones whose cost is not in the products.
deepbench: rows, counted from 1, of the training list of baidu-research/DeepBench (conv_problems.h); batch cut
to 4.
convnet: layers of soumith/convnet-benchmarks, which has them at batch 128; batch cut to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from convgrad.errors import BadFormatError
from convgrad.geometry import ConvGeometry, PoolGeometry

ITEM = 4  # bytes of a float32, the dtype of every benchmark


@dataclass(frozen=True)
class Layer:
    """A convolution of `batch` images."""

    name: str
    batch: int
    geometry: ConvGeometry

    @property
    def operand_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of x, weights, bias and err_output."""
        g = self.geometry
        return {
            "x": (self.batch, *g.input_shape),
            "weights": g.weights_shape,
            "bias": (g.n_kernels,),
            "err_output": (self.batch, *g.output_shape),
        }

    def flops(self, operation: str) -> int:
        """Multiplications and additions: two per tap and output value; backward has two such products."""
        products = 2 if operation == "backward" else 1
        return products * 2 * self.batch * prod(self.geometry.output_shape) * self.geometry.taps

    @property
    def column_bytes(self) -> int:
        """What the whole batch takes when it is unpacked at once."""
        rows, columns, _ = self.geometry.output_shape
        return self.batch * rows * columns * self.geometry.taps * ITEM


@dataclass(frozen=True)
class PoolLayer:
    """A pooling of `batch` images; `kind` as in convgrad.functional.pool_forward."""

    name: str
    batch: int
    kind: str
    geometry: PoolGeometry

    @property
    def least_bytes(self) -> int:
        """The input and the output, each moved once."""
        return self.batch * (prod(self.geometry.input_shape) + prod(self.geometry.output_shape)) * ITEM


def _conv(
    name: str,
    batch: int,
    height: int,
    width: int,
    channels: int,
    n_kernels: int,
    kx: int,
    ky: int,
    step: int,
    pad: int,
) -> Layer:
    sizes = height, width, channels, n_kernels, kx, ky
    return Layer(name, batch, ConvGeometry(*sizes, padding=(pad,) * 4, sliding=(step, step)))


def _pool(
    name: str, batch: int, size: int, channels: int, kind: str, kernel: int, step: int, pad: int
) -> PoolLayer:
    window = PoolGeometry(size, size, channels, kernel, kernel, (pad,) * 4, (step, step), ceil=False)
    return PoolLayer(name, batch, kind, window)


# fmt: off  # columns, to be read as a table
ELEVEN = (
    #     name      batch    H    W     C    K  kx  ky  step  pad
    _conv("alexnet2", 16, 27, 27, 96, 256, 5, 5, 1, 2),
    _conv("vgg3", 8, 56, 56, 256, 256, 3, 3, 1, 1),
    _conv("vgg1", 8, 224, 224, 3, 64, 3, 3, 1, 1),
    _conv("res3x3_64", 16, 56, 56, 64, 64, 3, 3, 1, 1),
    _conv("res1x1", 16, 56, 56, 256, 64, 1, 1, 1, 0),
    _conv("res3x3_256", 16, 14, 14, 256, 256, 3, 3, 1, 1),
    _conv("res3x3_512", 16, 7, 7, 512, 512, 3, 3, 1, 1),
    _conv("s2", 16, 56, 56, 128, 128, 3, 3, 2, 1),
    _conv("r7", 8, 224, 224, 3, 64, 7, 7, 2, 3),
    _conv("cifar", 100, 32, 32, 32, 32, 5, 5, 1, 2),
    _conv("mnist", 100, 24, 24, 1, 64, 5, 5, 1, 0),
)
DEEPBENCH = (
    _conv("deepbench1", 4, 161, 700, 1, 32, 20, 5, 2, 0),
    _conv("deepbench5", 4, 79, 341, 32, 32, 10, 5, 2, 0),
    _conv("deepbench14", 4, 54, 54, 64, 64, 3, 3, 1, 1),
    _conv("deepbench23", 4, 7, 7, 512, 512, 3, 3, 1, 1),
    _conv("deepbench30", 4, 224, 224, 3, 64, 7, 7, 2, 3),
    _conv("deepbench31", 4, 28, 28, 192, 32, 5, 5, 1, 2),
    _conv("deepbench45", 4, 7, 7, 2048, 512, 1, 1, 2, 3),
    _conv("deepbench64", 4, 56, 56, 64, 256, 1, 1, 1, 0),
)
CONVNET = (
    _conv("convnet_l4", 4, 16, 16, 128, 128, 7, 7, 1, 0),
    _conv("convnet_l5", 4, 13, 13, 384, 384, 3, 3, 1, 0),
)
POOLS = (
    #     name          batch size     C  kind      kernel step pad
    _pool("vgg_pool1", 8, 224, 64, "max", 2, 2, 0),
    _pool("alexnet_pool1", 16, 55, 96, "max", 3, 2, 0),
    _pool("resnet_pool", 16, 112, 64, "max", 3, 2, 1),
    _pool("inception_3a", 16, 28, 192, "max", 3, 1, 1),
    _pool("vgg_average", 8, 56, 256, "average", 2, 2, 0),
    _pool("resnet_mean", 16, 7, 2048, "average", 7, 7, 0),
)
# fmt: on
SETS = {"eleven": ELEVEN, "deepbench": DEEPBENCH, "convnet": CONVNET}
ALL = ELEVEN + DEEPBENCH + CONVNET


def choose(names: str) -> list[Layer]:
    """The layers named in `names`, with commas between: layers, sets or "all"; each once."""
    known = {layer.name: (layer,) for layer in ALL} | SETS | {"all": ALL}
    chosen: dict[str, Layer] = {}
    for name in names.split(","):
        if name not in known:
            raise BadFormatError(f"layers must be some of {', '.join(known)}; got {name!r}")
        chosen |= {layer.name: layer for layer in known[name]}
    return list(chosen.values())
