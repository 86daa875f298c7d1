"""Low-rank adapters against PyTorch and ONNX Runtime.

The same adapters, from an adapter file that ONNX Runtime wrote, train ten steps here and in PyTorch: losses and adapters agree to 1e-5, on
matrices, embeddings and filters, and on a base of float16, of int8 (QDQ) and of 4-bit blocks. What is exported agrees in ONNX Runtime: the merged model
and the model with adapters as inputs, fed the file of adapters, to 1e-5. A small vision transformer that PyTorch exported is fine-tuned
to more than 90% on images it has not seen.

Exit code 3: a package is missing, 1: something fails.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from program import TANDEM, needed

with needed():
    import numpy
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  the exporter wants it
    import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

BATCH, STEPS, RANK, SCALE, RATE, MOMENTUM = 8, 10, 3, 1.5, 0.05, 0.9
random = numpy.random.default_rng(1)


def tandem(*arguments, refused=None):
    run = subprocess.run([TANDEM, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "TANDEM_RUN_DIR": "none"})
    if refused is not None:
        if run.returncode != 2 or refused not in run.stderr:
            sys.exit(f"{arguments}: exit code {run.returncode}, expected a refusal with '{refused}': {run.stderr}")
    elif run.returncode:
        sys.exit(f"{arguments}: exit code {run.returncode}: {run.stderr}")
    return run.stdout


def drawn(*shape):
    return (random.standard_normal(shape) / numpy.prod(shape[1:]) ** 0.5).astype(numpy.float32)


def save(path, nodes, x, y, tensors, domains=()):
    graph = helper.make_graph(nodes, "lora", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
                              [t if isinstance(t, TensorProto) else numpy_helper.from_array(t, name) for name, t in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in domains)], ir_version=10), path)


# Tokens: a table, a matrix behind a Transpose (in floats, in int8, in blocks of 4 bits), and a Gemm.

TABLE, FIRST, FC, BIAS = drawn(30, 32), drawn(24, 32), drawn(5, 24), drawn(5, 1)[:, 0]


def int8(w):
    scale = numpy.float32(abs(w).max() / 127)
    return numpy.clip(numpy.round(w / scale), -127, 127).astype(numpy.int8), scale


def blocks(w, size=16):
    """[N, K] as MatMulNBits holds it, and what that comes to."""
    n, k = w.shape
    parts = w.reshape(n, k // size, size)
    scales = (abs(parts).max(2) / 7).astype(numpy.float32)
    q = (numpy.clip(numpy.round(parts / scales[..., None]), -8, 7) + 8).astype(numpy.uint8)
    return q[..., 0::2] | q[..., 1::2] << 4, scales, ((q.astype(numpy.float32) - 8) * scales[..., None]).reshape(n, k)


def token_model(path, base):
    tensors, first = {"table": TABLE, "fc": FC, "bias": BIAS, "axes": numpy.array([1])}, FIRST
    turn = helper.make_node("Transpose", ["first"], ["turned"], perm=[1, 0])
    product = [turn, helper.make_node("MatMul", ["e", "turned"], ["h"])]
    if base == "float":
        tensors["first"] = FIRST
    elif base == "half":
        tensors["first_16"] = FIRST.astype(numpy.float16)
        product.insert(0, helper.make_node("Cast", ["first_16"], ["first"], to=TensorProto.FLOAT))
        first = tensors["first_16"].astype(numpy.float32)
    elif base == "int8":
        q, scale = int8(FIRST)
        tensors |= {"first_q": q, "scale": numpy.array(scale), "zero": numpy.array(0, numpy.int8)}
        product.insert(0, helper.make_node("DequantizeLinear", ["first_q", "scale", "zero"], ["first"]))
        first = q.astype(numpy.float32) * scale
    else:
        packed, scales, first = blocks(FIRST)
        tensors |= {"first": packed, "scales": scales.reshape(-1)}
        product = [helper.make_node("MatMulNBits", ["e", "first", "scales"], ["h"], domain="com.microsoft", K=32, N=24, bits=4, block_size=16)]
    nodes = [helper.make_node("Gather", ["table", "x"], ["e"]), *product, helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("ReduceMean", ["r", "axes"], ["m"], keepdims=0), helper.make_node("Gemm", ["m", "fc", "bias"], ["y"], transB=1)]
    save(path, nodes, helper.make_tensor_value_info("x", TensorProto.INT64, ["N", 6]), ["N", 5], tensors, ("com.microsoft",))
    name = {"int8": "first_q", "half": "first_16"}.get(base, "first")
    weights = [torch.tensor(w) for w in (TABLE, first, FC, BIAS)]

    def forward(x, adapters):
        table, first, fc, bias = weights
        (ta, tb), (fa, fb), (ca, cb) = adapters
        e = table[x] + SCALE * ta[x] @ tb
        m = F.relu(e @ first.T + SCALE * (e @ fa) @ fb).mean(1)
        return m @ fc.T + bias + SCALE * (m @ ca) @ cb

    return {"table": ((30, RANK), (RANK, 32)), name: ((32, RANK), (RANK, 24)), "fc": ((24, RANK), (RANK, 5))}, forward


# Images: a convolution, and a matrix that is not turned.

def image_model(path, _):
    filters, fc = drawn(8, 3, 3, 3), drawn(5, 128).T.copy()
    nodes = [helper.make_node("Conv", ["x", "filters"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("MatMul", ["f", "fc"], ["y"])]
    save(path, nodes, helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8]), ["N", 5], {"filters": filters, "fc": fc})
    weights = [torch.tensor(filters), torch.tensor(fc)]

    def forward(x, adapters):
        (ka, kb), (ca, cb) = adapters
        f = F.relu(F.conv2d(x, weights[0], stride=2, padding=1) + SCALE * F.conv2d(F.conv2d(x, ka, stride=2, padding=1), kb)).flatten(1)
        return f @ weights[1] + SCALE * (f @ ca) @ cb

    return {"filters": ((RANK, 3, 3, 3), (8, RANK, 1, 1)), "fc": ((128, RANK), (RANK, 5))}, forward


def pytorch_run(forward, adapters, x, y):
    parameters = [[torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)] for a, b in adapters]
    optimizer, losses = torch.optim.SGD([p for pair in parameters for p in pair], RATE, momentum=MOMENTUM), []
    for i in range(0, len(x), BATCH):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(torch.tensor(x[i:i + BATCH]), parameters), torch.tensor(y[i:i + BATCH]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [[p.detach().numpy() for p in pair] for pair in parameters]


def read(path):
    file = onnxruntime.AdapterFormat.read_adapter(str(path))  # values lie in its memory
    return {name: value.numpy().copy() for name, value in file.get_parameters().items()}


def write(path, values):
    file = onnxruntime.AdapterFormat()
    file.set_adapter_version(1)
    file.set_model_version(1)
    file.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in values.items()})
    file.export_adapter(str(path))


def ort(path, x, adapter=None):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3  # that inputs have initializers is said of each
    if "int8" in path.name:  # else its product of eight bits rounds x to integers as well
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    options = onnxruntime.RunOptions()
    if adapter:
        held = onnxruntime.LoraAdapter()
        held.Load(str(adapter))
        options.add_active_adapter(held)
    return session.run(None, {session.get_inputs()[0].name: x}, options)[0]


def close(what, got, wanted, most=1e-5):
    apart = float(numpy.max(numpy.abs(numpy.asarray(got) - numpy.asarray(wanted)) / numpy.maximum(1, numpy.abs(wanted))))
    print(f"{what}: at most {apart:.1e} apart")
    if not apart <= most:
        sys.exit(f"{what}: {apart} apart, expected {most} at most")


def compare(folder, name, make, base, x):
    model, data, first, out = (folder / f"{name}{end}" for end in (".onnx", ".npz", ".first.onnx_adapter", ".out.onnx"))
    shapes, forward = make(model, base)
    y = random.integers(0, 5, len(x))
    numpy.savez(data, x=x, y=y)
    adapters = [[numpy.float32(0.2) * drawn(*s) for s in pair] for pair in shapes.values()]
    write(first, {"lora.scale": numpy.array([SCALE], numpy.float32), **{f"{w}.lora_{part}": v for w, pair in zip(shapes, adapters) for part, v in zip("AB", pair)}})
    merges = base in ("float", "half")
    exports = "merged,inputs,adapter" if merges else "inputs,adapter"
    command = ["train", model, "--data", f"npz:{data}", "--adapter", first, "--optimizer", "sgd", "--momentum", MOMENTUM, "--lr", RATE, "--batch-size", BATCH, "--steps", STEPS,
               "--no-shuffle", "--no-autotune", "--json", "--quiet", "--output", out]
    if not merges:
        tandem(*command, refused="--lora-export adapter")
    losses = [e["loss"] for e in map(json.loads, tandem(*command, "--lora-export", exports).splitlines()) if e["event"] == "step"]
    wanted, trained = pytorch_run(forward, adapters, x, y)
    close(f"{name}: losses of {len(losses)} steps, here and in PyTorch", losses, wanted)
    held = read(out.with_suffix(".onnx_adapter"))
    for weight, pair in zip(shapes, trained):
        for part, value in zip("AB", pair):
            close(f"{name}: {weight}.lora_{part}", held[f"{weight}.lora_{part}"], value)
    scores = forward(torch.tensor(x), [[torch.tensor(v) for v in pair] for pair in trained]).numpy()
    inputs = out.with_suffix(".inputs.onnx") if merges else out
    close(f"{name}: ONNX Runtime with the adapter as inputs", ort(inputs, x, out.with_suffix(".onnx_adapter")), scores)
    close(f"{name}: without it the base", ort(inputs, x), ort(model, x), 1e-6)
    if merges:  # into 16 bits with their rounding
        close(f"{name}: merged", ort(out, x), scores, 1e-3 if base == "half" else 1e-5)
    for template in (model, inputs):
        tandem("predict", template, "--data", f"npz:{data}", "--split", "train", "--adapter", out.with_suffix(".onnx_adapter"), "--output", folder / "p.npy", "--batch-size", BATCH)
        close(f"{name}: predict --adapter on {template.name}", numpy.load(folder / "p.npy"), scores)


def by_config(folder):
    """What a run wrote is found by its folder, also where that are adapters alone; and such a run goes on."""
    model, data, run, out = (folder / name for name in ("tokens_float.onnx", "tokens_float.npz", "run", "small.onnx"))
    tandem("train", model, "--data", f"npz:{data}", "--lora", "r=2,targets=*", "--lora-export", "adapter", "--optimizer", "adam", "--steps", 20, "--no-autotune", "--quiet",
           "--run-dir", run, "--output", out)
    held_out = ["--data", f"npz:{data}", "--split", "train", "--json", "--quiet"]
    base, wanted, found = (json.loads(tandem("evaluate", *which, *held_out))["loss"] for which in
                           ([model], [model, "--adapter", out.with_suffix(".onnx_adapter")], ["--config", run]))
    print(f"loss {base:.4f}, with adapters {wanted:.4f}, by --config {found:.4f}")
    if out.exists() or found != wanted or not wanted < base - 0.01:
        sys.exit("evaluate --config: expected the loss with adapters")
    tandem("train", "--resume", "--run-dir", run, "--steps", 30, "--quiet")


# A vision transformer.

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width)})
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.attn["qkv"](self.norm1(x)).chunk(3, -1))
        x = x + self.attn["out"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width=32, layers=3, heads=4, side=16, patch=4, classes=5):
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, patch)
        self.places = nn.Parameter(0.2 * torch.randn(1, (side // patch) ** 2, width))
        self.blocks, self.norm, self.head = nn.Sequential(*[Block(width, heads) for _ in range(layers)]), nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places)).mean(1))


def stripes(count):
    """Stripes across, upright or slanted, anywhere, in noise: which of the three."""
    kinds, (row, column) = numpy.arange(count) % 3, numpy.mgrid[:16, :16]
    along = numpy.stack([row, column, row + column])[kinds]
    x = numpy.sin(along * numpy.pi / 2 + random.uniform(0, 6.3, (count, 1, 1))) + 0.4 * random.standard_normal((count, 16, 16))
    return x[:, None].astype(numpy.float32), kinds


def vision(folder):
    torch.manual_seed(1)
    base, out = folder / "vit.onnx", folder / "tuned.onnx"
    torch.onnx.export(VisionTransformer().eval(), (torch.zeros(2, 1, 16, 16),), base, input_names=["x"], output_names=["y"],
                      dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    held_out, _ = stripes(150)
    for part, (x, y) in {"train": stripes(300), "test": (held_out, numpy.arange(150) % 3)}.items():
        numpy.savez(folder / f"{part}.npz", x=x, y=y)
    tandem("train", base, "--data", f"npz:{folder / 'train.npz'}", "--head", 3, "--lora", "r=4,alpha=8,targets=*attn*,targets=*mlp*", "--optimizer", "adamw", "--lr", "5e-3",
           "--batch-size", 30, "--epochs", 12, "--no-autotune", "--quiet", "--lora-export", "merged,inputs,adapter", "--output", out)
    result = json.loads(tandem("evaluate", out, "--data", f"npz:{folder / 'test.npz'}", "--split", "train", "--json", "--quiet"))
    # A new head alone gets to two thirds: the adapters are what learns.
    print(f"vision transformer: {100 * result['accuracy']:.1f}% of 150 held-out images")
    if not result["accuracy"] > 0.9:
        sys.exit("expected more than 90%")
    adapter, merged = out.with_suffix(".onnx_adapter"), ort(out, held_out)
    names = sorted(read(adapter))
    if len(names) != 3 * 4 * 2 + 1:
        sys.exit(f"the file of adapters holds {names}")
    close("vision transformer: merged, and adapters as inputs", ort(out.with_suffix(".inputs.onnx"), held_out, adapter), merged)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokens = random.integers(0, 30, (BATCH * STEPS, 6))
        for base in ("float", "half", "int8", "blocks"):
            compare(folder, f"tokens_{base}", token_model, base, tokens)
        compare(folder, "images", image_model, "float", random.standard_normal((BATCH * STEPS, 3, 8, 8)).astype(numpy.float32))
        by_config(folder)
        vision(folder)


main()
