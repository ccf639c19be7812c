"""How much of a device's memory is taken."""

from __future__ import annotations

import threading
from collections import deque

from convgrad.backends.device.driver import OutOfDeviceMemory, Profile


class Account:
    """Refuses what goes beyond the device's memory, since runtimes promise more than there is.

    On a CPU the process would be killed when it writes to such memory.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._taken = 0
        self._returned: deque[int] = deque()

    def take(self, nbytes: int) -> Share:
        """The right to use `nbytes` more, for as long as it is kept; raises OutOfDeviceMemory."""
        with self._lock:
            while self._returned:
                self._taken -= self._returned.popleft()
            if self._taken + nbytes > self._profile.memory:
                raise self.refusal(nbytes)
            self._taken += nbytes
        return Share(nbytes, self._returned)

    def refusal(self, nbytes: int) -> OutOfDeviceMemory:
        """The error for a request of `nbytes`."""
        parts = f"{self._profile.max_allocation} at most in one piece; {self._taken} are taken"
        return OutOfDeviceMemory(nbytes, self._profile.memory, f", {parts}")


class Share:
    """Bytes that are taken until this object ends, which may be in the middle of anything: hence no lock."""

    __slots__ = ("_nbytes", "_returned")

    def __init__(self, nbytes: int, returned: deque[int]) -> None:
        self._nbytes, self._returned = nbytes, returned

    def __del__(self) -> None:
        self._returned.append(self._nbytes)
