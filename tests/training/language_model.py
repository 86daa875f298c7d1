"""A language model of bytes, like GPT with four layers, trained on this repository's own documents: 200 steps of Adam here and in
PyTorch, from the same weights and batches, give the same curve (every loss to 1e-3), and the curve falls.

Exit code 3: a package is missing, 1: something fails.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from program import TANDEM, needed

with needed():
    import numpy
    import onnxscript  # noqa: F401  the exporter wants it
    import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH, TOKENS, WIDTH, HEADS, LAYERS, STEPS, RATE = 8, 48, 64, 4, 4, 200, 1e-3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        self.blocks, self.norm, self.head = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places)))


def windows():
    """Samples in order: windows of bytes, and the bytes that follow."""
    text = b"".join(p.read_bytes() for p in sorted((ROOT / "docs").glob("*.md")))
    starts = numpy.arange(BATCH * STEPS) * TOKENS % (len(text) - TOKENS - 1)
    text = numpy.frombuffer(text, numpy.uint8).astype(numpy.int64)
    return numpy.stack([text[s:s + TOKENS] for s in starts]), numpy.stack([text[s + 1:s + TOKENS + 1] for s in starts])


def pytorch_losses(model, x, y):
    optimizer, losses = torch.optim.Adam(model.parameters(), RATE), []
    for i in range(0, len(x), BATCH):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.tensor(x[i:i + BATCH])).flatten(0, 1), torch.tensor(y[i:i + BATCH]).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def tandem_losses(file, data, folder):
    command = [TANDEM, "train", file, "--data", f"npz:{data}", "--optimizer", "adam", "--lr", str(RATE), "--batch-size", str(BATCH),
               "--class-axis", "2", "--steps", str(STEPS), "--no-shuffle", "--no-autotune", "--output", str(folder / "trained.onnx"), "--json", "--quiet"]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=folder)
    if run.returncode:
        sys.exit(f"tandem train: exit code {run.returncode}: {run.stderr}")
    return [e["loss"] for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model, (x, y) = Model(), windows()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.savez(folder / "text.npz", x=x, y=y)
        torch.onnx.export(model.eval(), (torch.tensor(x[:2]),), folder / "model.onnx", input_names=["x"], output_names=["y"],
                          dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
        losses = tandem_losses(folder / "model.onnx", folder / "text.npz", folder)
    wanted = pytorch_losses(model.train(), x, y)
    apart = [abs(a - b) / b for a, b in zip(losses, wanted, strict=True)]
    print(f"{STEPS} steps: loss {wanted[0]:.4f} to {wanted[-1]:.4f}, PyTorch's and tandem's at most {max(apart):.1e} apart (step {apart.index(max(apart)) + 1})")
    if not max(apart) <= 1e-3:
        sys.exit("the curves part")
    if not wanted[-1] < 0.7 * math.log(256):
        sys.exit("the model has not learned")


main()
