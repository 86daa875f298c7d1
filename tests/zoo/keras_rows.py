"""Keras's models: as modules of PyTorch they are the oracle, TensorFlow writes them by tf2onnx."""
import os
import pathlib
import subprocess
import tempfile
from functools import partial

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

from keras_models import IMAGE, MODELS, SERIES, WORDS  # noqa: E402
from row import Row, Values  # noqa: E402

VARIANTS = ("tf2onnx18.dyn", "tf2onnx13.b2")
TEXT = ("text_mean", "text_conv", "lstm", "gru", "simple_rnn", "bilstm", "lstm_stack")
INPUTS = {"mlp": Values((12,)), "autoencoder": Values((12,)), "causal_conv": Values(SERIES), "transformer": Values(SERIES),
          "mobilenet": Values((32, 32, 3)), "mobilenet_v2": Values((32, 32, 3)), **{name: Values((10,), below=WORDS) for name in TEXT}}
CLASSES = {"autoencoder": Values((12,)), **{name: Values(IMAGE[:2], below=4) for name in MODELS if name.startswith("unet")},
           **{name: Values((), below=4) for name in ("mlp", "causal_conv", "transformer", *TEXT)}}


class Keras(nn.Module):
    def __init__(self, name):
        super().__init__()
        keras.utils.clear_session()  # layers' names, by which parameters are in order, count from the start
        keras.utils.set_random_seed(1)  # Keras draws its first weights by a seed of its own
        self.model = MODELS[name]()

    def forward(self, x):
        return self.model(x, training=self.training)

    def as_exported(self, present):
        """Normalizations that tf2onnx made part of the layers before them: those are scaled, and an offset is left."""
        with torch.no_grad():
            for norm in self.model.layers:
                if isinstance(norm, keras.layers.BatchNormalization) and not present(norm.moving_mean.value):
                    self.fuse(norm._inbound_nodes[0].parent_nodes[0].operation, norm)

    def fuse(self, layer, norm):
        filters = layer.pointwise_kernel if isinstance(layer, keras.layers.SeparableConv2D) else layer.kernel
        scale = norm.gamma.value / torch.sqrt(norm.moving_variance.value + norm.epsilon)
        bias = layer.bias.value.clone() if layer.bias is not None else 0
        norm.trainable = False  # now it takes its statistics while training, too
        norm.beta.value.copy_(norm.beta.value + (bias - norm.moving_mean.value) * scale).requires_grad_(True)
        filters.value.mul_(scale.view(filters.shape[2:]) if isinstance(layer, keras.layers.DepthwiseConv2D) else scale)
        for variable, value in ((norm.gamma, 1), (norm.moving_mean, 0), (norm.moving_variance, 1 - norm.epsilon), (layer.bias, 0)):
            if variable is not None:
                variable.value.fill_(value).requires_grad_(False)


def write(row, opset, batch, path):
    if "TANDEM_TF_PYTHON" not in os.environ:
        raise RuntimeError("TANDEM_TF_PYTHON does not name a Python with tensorflow and tf2onnx")
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder) / "weights.npz"
        numpy.savez(weights, **{str(i): w for i, w in enumerate(row.model().model.get_weights())})
        command = [os.environ["TANDEM_TF_PYTHON"], pathlib.Path(__file__).parent / "keras_export.py", row.name.removeprefix("keras_"), weights,
                   opset, batch.removeprefix("b"), path]
        run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(run.stderr[-300:])


ROWS = [Row(f"keras_{name}", "keras", partial(Keras, name), {"x": INPUTS.get(name, Values(IMAGE))}, CLASSES.get(name, Values((), below=10)),
            variants=VARIANTS, write=write) for name in MODELS]
