"""Run the cases of the check on Oclgrind's device: `oclgrind OPTIONS python watched.py SHAPE`.

Prints one line of JSON: the launches of each kernel, as [file, name, number], and what the cases complain of.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace

import numpy as np

from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.programs import Programs
from convgrad.backends.opencl import open_backend
from convgrad.checking.families import suiting

VECTOR = 8  # Oclgrind says 1, with which kernels of CPU shape would not run as they do on CPUs


class Keeping:
    """A driver whose memory is never freed: Oclgrind 21.10 gives false alarms where it uses some again."""

    def __init__(self, driver):
        self._driver, self._kept = driver, []
        self.profile = replace(driver.profile, vector=VECTOR)

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def allocate(self, nbytes):
        self._kept.append(self._driver.allocate(nbytes))
        return self._kept[-1]


class CountingPrograms(Programs):
    """Counts what is launched."""

    def __init__(self, driver):
        super().__init__(driver)
        self.launches = Counter()

    def kernel(self, wanted):
        self.launches[wanted.file, wanted.name] += 1
        return super().kernel(wanted)


def main(shape):
    backend = DeviceBackend(Keeping(open_backend("opencl", shape=shape).driver))
    assert "Oclgrind" in backend.device, backend.device
    backend.executor.programs = programs = CountingPrograms(backend.driver)
    cases = [case for some in suiting(backend).values() for case in some]
    # Local memory makes this shape slow. float64 differs in nothing but its name; digests would take longer
    # than all the rest, and launch no other kernels.
    if shape == "gpu":
        cases = [case for case in cases if case.dtype == np.float32 and not case.digest]
    complaints = [complaint for case in cases if (complaint := case.complaint(backend))]
    launches = [[*kernel, number] for kernel, number in programs.launches.items()]
    sys.stdout.write(json.dumps({"launches": launches, "complaints": complaints}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
