"""The few kinds of error that convgrad raises on purpose."""


class ConvgradError(Exception):
    """Base of all errors below, to catch every one of them at once."""


class BadFormatError(ConvgradError, ValueError):
    """An argument has a wrong shape, size, dtype or value; the message names it, the wish and what came."""


class BackendUnavailable(ConvgradError, RuntimeError):
    """A backend's package, device or driver is missing; the message says which, and the next step."""


class DataUnavailable(ConvgradError, RuntimeError):
    """A data set's files or package are missing; the message says what to install or to put where."""


class KernelBuildError(ConvgradError, RuntimeError):
    """A device compiler refused a kernel; the message holds the numbered source and the build log."""


class SnapshotError(ConvgradError, ValueError):
    """A snapshot file is damaged, foreign, or contradicts the workflow that wants to resume from it."""
