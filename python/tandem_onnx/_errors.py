"""Errors by class. Their messages are those of the command line; `code` is its exit code."""


class Error(RuntimeError):
    """Whatever the library refuses or cannot do."""
    code = 1


class UsageError(Error, ValueError):
    """An option, an argument or a name that cannot be."""
    code = 2


class ModelError(Error):
    """An ONNX file that cannot be read, or holds what cannot be trained."""
    code = 3


class DataError(Error, ValueError):
    """Data that does not fit the model."""
    code = 4


class DeviceError(Error):
    """A device that is not there or has too little memory."""
    code = 5


class CommunicationError(Error):
    """Another process of the same run that is lost."""
    code = 6


class FileError(Error, OSError):
    """A file that cannot be read or written."""
    code = 7


class DivergedError(Error, ArithmeticError):
    """A loss that is no longer a finite number."""
    code = 8


class StoppedError(Error):
    """A plan whose making was stopped."""
    code = 75


class TandemWarning(UserWarning):
    """What was asked for and will not be, or went wrong though the run goes on."""


_CLASSES = {c.code: c for c in (UsageError, ModelError, DataError, DeviceError, CommunicationError, FileError, DivergedError, StoppedError)}


def by_code(code):
    return _CLASSES.get(code, Error)
