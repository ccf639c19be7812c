"""Programs are built once, kernel objects belong to threads, what does not compile is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from convgrad.backends.device.plan import Kernel
from convgrad.backends.device.programs import Programs
from convgrad.errors import KernelBuildError
from tests.backends.small_kernels import AFFINE, BROKEN, COUNT, FILE, OTHER, TEXT


@pytest.fixture
def programs(driver, small_kernels):
    return Programs(driver)


def test_kernels_of_one_program_share_it(programs):
    assert programs.built == 0
    first, second = programs.kernel(AFFINE), programs.kernel(COUNT)
    assert first is not second
    assert programs.kernel(AFFINE) is first
    assert programs.built == 1


def test_other_texts_and_other_defines_are_other_programs(programs):
    for number, kernel in enumerate(
        (AFFINE, AFFINE._replace(file=OTHER), AFFINE._replace(defines=("DOUBLE=0", "INDEX=int"))), 1
    ):
        programs.kernel(kernel)
        assert programs.built == number


def test_threads_share_kernel_objects(programs):
    here = programs.kernel(AFFINE)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(programs.kernel, AFFINE).result() is here
    assert programs.built == 1


def test_threads_that_want_the_same_program_build_it_once(driver, small_kernels):
    class Counting:
        def __init__(self):
            self.builds = 0

        def build(self, source, options):
            self.builds += 1
            return driver.build(source, options)

        kernel = staticmethod(driver.kernel)

    counting, meeting = Counting(), Barrier(4, timeout=60)
    programs = Programs(counting)

    def wanted(_):
        meeting.wait()
        return programs.kernel(AFFINE)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(map(id, pool.map(wanted, range(4))))) == 1
    assert (counting.builds, programs.built) == (1, 1)


def test_what_does_not_compile_is_named_and_forgotten(programs, small_kernels):
    broken = Kernel(BROKEN, "affine", ("DOUBLE=0", "LANES=4"))
    told = rf"kernels/{BROKEN} with -DDOUBLE=0 -DLANES=4: (?s:.*)nonsense;"
    with pytest.raises(KernelBuildError, match=told):
        programs.kernel(broken)
    assert programs.built == 0
    small_kernels[BROKEN] = small_kernels[FILE]
    assert programs.kernel(broken)
    assert programs.built == 1


def test_lines_are_counted_in_the_text_that_was_compiled(programs, small_kernels):
    small_kernels[BROKEN] = TEXT.replace("y[place] +=", "y[plaice] +=")
    number = 1 + small_kernels[BROKEN].splitlines().index("  y[plaice] += x ? 1 : -1;")
    with pytest.raises(KernelBuildError) as error:
        programs.kernel(Kernel(BROKEN, "count", ("DOUBLE=0",)))
    assert f"{number:5}   y[plaice] += x ? 1 : -1;" in str(error.value).splitlines()
