"""tandem for Python: an ONNX file is a template model, planned for N devices, trained, and written back as ONNX.

    import tandem_onnx as tandem
    m = tandem.Model("lenet.onnx")
    m.compile(loss="cross_entropy", optimizer=tandem.SGD(0.05, momentum=0.9), devices="cpu:0-1")
    m.fit(x, y, epochs=2, batch_size=64)
    m.save("trained.onnx")
"""
from ._errors import (CommunicationError, DataError, DeviceError, DivergedError, Error, FileError, ModelError, StoppedError, TandemWarning,
                      UsageError)
from ._options import options
from ._tandem import version as __version__
from .callbacks import (Callback, Checkpoint, CSVLogger, EarlyStopping, History, LambdaCallback, ModelCheckpoint, ReduceLROnPlateau,
                        TensorBoard)
from .model import Model, multi_gpu_model
from .optimizers import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop
from .plan import Layer, Plan

__all__ = ["Adagrad", "Adam", "AdamW", "CSVLogger", "Callback", "Checkpoint", "CommunicationError", "DataError", "DeviceError",
           "DivergedError", "EarlyStopping", "Error", "FileError", "History", "LambdaCallback", "Layer", "Lion", "Model", "ModelCheckpoint",
           "ModelError", "Optimizer", "Plan", "RMSprop", "ReduceLROnPlateau", "SGD", "StoppedError", "TandemWarning", "TensorBoard",
           "UsageError", "export", "multi_gpu_model", "options"]


def export(module, example, path, *, batch_axis=0, check=True, dropout=True):
    """A torch.nn.Module as an ONNX file that keeps every parameter; see `tandem_onnx._torch.export`."""
    from ._torch import export as run
    return run(module, example, path, batch_axis=batch_axis, check=check, dropout=dropout)
