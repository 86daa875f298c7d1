"""Exports the zoo's models by PyTorch's exporters.

export_models.py FOLDER [PATTERN...]

Writes FOLDER/NAME.EXPORTER.BATCH.onnx for each pattern (as in a shell; default *) that NAME.EXPORTER.BATCH fits, and
beside it NAME.EXPORTER.BATCH.params.json: PyTorch's parameters and buffers with their shapes.
EXPORTER: torchscript_eval (inference mode, constants folded), torchscript_train (training mode, nothing folded), dynamo
(inference mode, optimised, as by default), dynamo_plain (nothing folded).
BATCH: b1 and b2 (the batch is that number), dyn (symbolic, traced with 2 samples).
"""
import fnmatch
import io
import contextlib
import json
import logging
import pathlib
import sys
import warnings

import torch

import attention
import convolutional
import reparameterised

FAMILIES = {module.__name__: [a.name for a in module.ARCHITECTURES] for module in (reparameterised, convolutional, attention)}
ARCHITECTURES = {a.name: a for module in (reparameterised, convolutional, attention) for a in module.ARCHITECTURES}
EXPORTERS = ("torchscript_eval", "torchscript_train", "dynamo", "dynamo_plain")
BATCHES = {"b1": 1, "b2": 2, "dyn": 2}


def names():
    return [f"{a}.{e}.{b}" for a in ARCHITECTURES for e in EXPORTERS for b in BATCHES]


def export(name, path):
    """Writes the export that `name` says; raises what PyTorch's exporter raises."""
    architecture, exporter, batch = name.split(".")
    row = ARCHITECTURES[architecture]
    model = row.model()
    x = row.data(BATCHES[batch])[0]
    dynamic = batch == "dyn"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        if exporter.startswith("dynamo"):
            shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
            torch.onnx.export(model.eval(), (x,), str(path), dynamo=True, opset_version=18, input_names=["x"], output_names=["y"],
                              dynamic_shapes=shapes, external_data=False, optimize=exporter == "dynamo")
            return
        training = exporter == "torchscript_train"
        mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        axes = {"x": {0: "batch"}, "y": {0: "batch"}} if dynamic else None
        torch.onnx.export(model.train(training), (x,), str(path), dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
                          dynamic_axes=axes, training=mode, do_constant_folding=not training)


def describe(name):
    model = ARCHITECTURES[name.split(".")[0]].model()
    return {"parameters": [{"name": n, "shape": list(p.shape), "requires_grad": p.requires_grad} for n, p in model.named_parameters()],
            "buffers": [{"name": n, "shape": list(b.shape), "dtype": str(b.dtype)} for n, b in model.named_buffers()]}


def main(folder, *patterns):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names():
        if not any(fnmatch.fnmatch(name, p) for p in patterns or ("*",)):
            continue
        try:
            export(name, folder / f"{name}.onnx")
        except Exception as error:  # what an exporter cannot do is told, and the others go on
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        (folder / f"{name}.params.json").write_text(json.dumps(describe(name), indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
