"""Memory that is taken and given back, as counted on the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convgrad.backends.device.account import Account
from convgrad.backends.device.driver import OutOfDeviceMemory, Profile

PROFILE = Profile("cpu", 8, 2, memory=1000, max_allocation=600, local_memory=10, alignment=128, float64=True)


def test_an_account_counts_what_is_kept():
    account = Account(PROFILE)
    first, second = account.take(400), account.take(600)
    with pytest.raises(OutOfDeviceMemory, match=r"1 bytes; it has 1000 in all, 600 at .*; 1000 are taken"):
        account.take(1)
    del first
    third = account.take(399)
    assert account.take(1)
    with pytest.raises(OutOfDeviceMemory, match="999 are taken"):
        account.take(2)
    del second, third
    assert account.take(1000)


def test_an_account_of_nothing():
    with pytest.raises(OutOfDeviceMemory):
        Account(replace(PROFILE, memory=0)).take(1)
