"""Exports one of Keras's models by tf2onnx: keras_export.py NAME WEIGHTS.npz OPSET BATCH FILE.onnx (BATCH: a number, or dyn)

A program of its own: TensorFlow stands in another Python environment, which TANDEM_TF_PYTHON names."""
import os
import sys

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402

from keras_models import MODELS  # noqa: E402


def main(name, weights, opset, batch, path):
    model = MODELS[name]()
    held = numpy.load(weights)
    model.set_weights([held[str(i)] for i in range(len(held.files))])
    size = None if batch == "dyn" else int(batch)
    signature = [tf.TensorSpec((size, *model.inputs[0].shape[1:]), model.inputs[0].dtype, name="x")]
    tf2onnx.convert.from_function(tf.function(lambda x: model(x, training=False), input_signature=signature), input_signature=signature,
                                  opset=int(opset), output_path=path)


if __name__ == "__main__":
    main(*sys.argv[1:])
