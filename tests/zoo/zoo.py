"""The zoo's rows and their variants, and how a row is exported.

A variant is NAME.EXPORTER.BATCH.
EXPORTER: dynamo18, dynamo20, dynamo23 (eval(), of that opset), plain18 (as dynamo18, but nothing is computed), train17 (TorchScript in training mode, nothing folded), eval13 and
eval17 (TorchScript in inference mode, constants folded), tf2onnx13 and tf2onnx18, skl2onnx13 and skl2onnx17.
BATCH: dyn (symbolic, traced with 2 samples), b2 (the batch is 2)."""
import contextlib
import dataclasses
import importlib
import inspect
import io
import logging
import os
import warnings

import torch

DEFAULT, PLAIN = "dynamo18.dyn", "plain18.dyn"
ROTATING = ("eval17.b2", "train17.dyn", "dynamo23.dyn", "eval13.dyn", "dynamo20.b2")
TRACED = 2
PARITY = ("hf_bert_mlm", "hf_gpt2", "hf_llama", "hf_t5_encoder", "hf_vit", "tv_vit", "tv_swin", "tv_convnext", "tv_efficientnet_b0", "unet_transposed",
          "unet_nearest", "unet_bilinear", "tv_deeplabv3", "lstm_text", "gru_text", "dlrm", "graph_index_add", "vae", "hf_whisper_encoder",
          "hf_wav2vec2", "mixture_of_experts", "hf_mixtral")  # rows whose first twenty losses are compared
# Those of LATER were chosen after tandem could train the others (the second ones after the unseen ones), and stand for what a first try
# meets: their default exports, of a third of the fourth sample TorchScript's, too, of the fifth, sixth and seventh those with optimize=False, too,
# and of a fifth of the sixth TorchScript's.
FAMILIES = ("small", "torchvision", "timm", "transformers", "keras", "sklearn", "unseen_small", "unseen_timm", "unseen_transformers",
            "second_small", "second_timm", "second_transformers", "third_small", "third_timm", "third_torchvision", "third_transformers",
            "fourth_small", "fourth_timm", "fourth_torchvision", "fourth_transformers",
            "fifth_small", "fifth_timm", "fifth_transformers",
            "sixth_small", "sixth_timm", "sixth_torchvision", "sixth_transformers",
            "seventh_small", "seventh_timm", "seventh_transformers")
LATER = ("unseen", "second", "third", "fourth", "fifth", "sixth", "seventh")
TORCHSCRIPT = ("eval17.b2", "train17.dyn", "eval13.dyn")  # in turn, of every third row of the fourth sample and every fifth of the sixth besides


def later(family, place):
    """The variants of a row of LATER."""
    if family.startswith("sixth"):
        return (PLAIN, DEFAULT, *((TORCHSCRIPT[place // 5 % 3],) if place % 5 == 0 else ()))
    if family.startswith(("fifth", "seventh")):
        return (PLAIN, DEFAULT)
    return (DEFAULT, TORCHSCRIPT[place // 3 % 3]) if family.startswith("fourth") and place % 3 == 0 else (DEFAULT,)


def load(families=FAMILIES):
    """{name: row} of the families whose packages are installed, and {family: why not} of the others."""
    rows, absent = {}, {}
    for family in families:
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                found = importlib.import_module(f"{family}_rows").ROWS
                rows.update((row.name, dataclasses.replace(row, variants=later(family, i)) if family.startswith(LATER) else row) for i, row in enumerate(found))
        except ImportError as missing:
            absent[family] = str(missing)
    return rows, absent


def variants(rows, sample=False):
    """Of each row its default export and one that its place in the list says; as a sample one of these, in turn, of every second row."""
    names = []
    for i, row in list(enumerate(rows.values()))[::2 if sample else 1]:
        both = row.variants or (DEFAULT, ROTATING[i % len(ROTATING)])
        names += [f"{row.name}.{v}" for v in (both[i // 2 % 2:][:1] if sample else both)]
    return names


@contextlib.contextmanager
def silence():
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        yield


def export(row, exporter, batch, path):
    """Writes the export; raises what PyTorch's exporter raises."""
    kind, opset, dynamic = exporter.rstrip("0123456789"), int(exporter[-2:]), batch == "dyn"
    if row.write:
        row.write(row, opset, batch, path)
        return
    model = row.model()
    inputs = row.data(TRACED)[0]
    common = {"input_names": list(inputs), "output_names": ["y"], "opset_version": opset}
    with silence():
        if kind in ("dynamo", "plain"):
            shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs) if dynamic else None
            if shapes and any(p.kind == inspect.Parameter.VAR_POSITIONAL for p in inspect.signature(model.forward).parameters.values()):
                shapes = (shapes,)
            torch.onnx.export(model.eval(), tuple(inputs.values()), str(path), dynamo=True, dynamic_shapes=shapes,
                              external_data=False, optimize=kind == "dynamo", **common)
            return
        training = kind == "train"
        axes = {name: {0: "batch"} for name in [*inputs, "y"]} if dynamic else None
        torch.onnx.export(model.train(training), tuple(inputs.values()), str(path), dynamo=False, dynamic_axes=axes,
                          training=torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL,
                          do_constant_folding=not training, **common)
