"""Launch a kernel of planted.cl on Oclgrind's device: `oclgrind OPTIONS python planted.py NAME`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from convgrad.backends.opencl import open_backend


def main(name):
    backend = open_backend("opencl", shape="gpu")
    assert "Oclgrind" in backend.device, backend.device
    driver = backend.driver
    x, y = (backend.upload(np.arange(64, dtype=np.float32)) for _ in range(2))
    program = driver.build(Path(__file__).with_name("planted.cl").read_text(), [])
    driver.launch(driver.kernel(program, name), (4, 1, 1), (16, 1, 1), [x.memory, y.memory])
    backend.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
