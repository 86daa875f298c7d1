#!/usr/bin/env python3
"""Times training steps of one network in PyTorch and prints one JSON line.

    python3 bench/pytorch_steps.py --model resnet50 --batch 8 --threads 2 --mode compile --memory channels_last
    python3 bench/pytorch_steps.py --model resnet50 --batch 256 --device cuda --precision bf16 --mode graphs --memory channels_last

A step is forward, softmax cross-entropy, backward and SGD with momentum on one fixed batch of noise, as in
bench/tandem_steps.cpp; the networks are those of models/. Times are of whole steps, after a warm-up. On a GPU the batch
stays there and steps follow each other without a wait; bf16 is autocast with float32 weights, fp32 has TF32 switched
off. Modes: eager; compile (torch.compile); graphs (torch.compile with CUDA graphs).
"""
import argparse
import contextlib
import json
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


def conv_relu_pool(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(*conv_relu_pool(1, 20), *conv_relu_pool(20, 50), nn.Flatten(), nn.Linear(2450, 500), nn.ReLU(),
                         nn.Linear(500, 10))


def conv_module(inputs, outputs, kernel, stride=1, pad=0):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, pad), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Parallel(nn.Module):
    """The branches' outputs, concatenated by channel."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def mini_googlenet():
    def inception(inputs, ones, threes):
        return Parallel(conv_module(inputs, ones, 1), conv_module(inputs, threes, 3, 1, 1))

    def downsample(inputs, threes):
        return Parallel(conv_module(inputs, threes, 3, 2), nn.MaxPool2d(3, 2))

    return nn.Sequential(
        conv_module(3, 96, 3, 1, 1), inception(96, 32, 32), inception(64, 32, 48), downsample(80, 80),
        inception(160, 112, 48), inception(160, 96, 64), inception(160, 80, 80), inception(160, 48, 96),
        downsample(144, 96), inception(240, 176, 160), inception(336, 176, 160), nn.AvgPool2d(7), nn.Dropout(0.5),
        nn.Flatten(), nn.Linear(336, 10))


def conv_norm(inputs, outputs, kernel, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return layers + ([activation] if activation else [])


class Residual(nn.Module):
    """activation(layers(x) + shortcut(x)); the activation may be none."""

    def __init__(self, layers, shortcut=None, activation=None):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.shortcut = shortcut or nn.Identity()
        self.activation = activation or nn.Identity()

    def forward(self, x):
        y = self.layers(x)
        y += self.shortcut(x)
        return self.activation(y)


def resnet50():
    relu = nn.ReLU(inplace=True)
    layers, channels = [*conv_norm(3, 64, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            stride, out = first_stride if i == 0 else 1, 4 * width
            shortcut = nn.Sequential(*conv_norm(channels, out, 1, stride)) if i == 0 else None
            layers.append(Residual([*conv_norm(channels, width, 1, activation=relu),
                                    *conv_norm(width, width, 3, stride, activation=relu), *conv_norm(width, out, 1)],
                                   shortcut, relu))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def mobilenetv2():
    relu6 = nn.ReLU6(inplace=True)
    layers, channels = conv_norm(3, 32, 3, 2, activation=relu6), 32
    for expand, out, count, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                             (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            hidden, stride = channels * expand, first_stride if i == 0 else 1
            block = conv_norm(channels, hidden, 1, activation=relu6) if expand != 1 else []
            block += conv_norm(hidden, hidden, 3, stride, hidden, relu6) + conv_norm(hidden, out, 1)
            layers += [Residual(block)] if stride == 1 and channels == out else block
            channels = out
    layers += conv_norm(channels, 1280, 1, activation=relu6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


def xception():
    def separable(inputs, outputs):
        return [nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False), *conv_norm(inputs, outputs, 1)]

    def downsampling(inputs, first, second, relu_first=True):
        layers = [nn.ReLU()] if relu_first else []
        layers += [*separable(inputs, first), nn.ReLU(), *separable(first, second), nn.MaxPool2d(3, 2, 1)]
        return Residual(layers, nn.Sequential(*conv_norm(inputs, second, 1, 2)))

    def middle():
        return Residual([layer for _ in range(3) for layer in (nn.ReLU(), *separable(728, 728))])

    stem = [nn.Conv2d(3, 32, 3, 2, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, bias=False),
            nn.BatchNorm2d(64), nn.ReLU()]
    entry = [downsampling(64, 128, 128, False), downsampling(128, 256, 256), downsampling(256, 728, 728)]
    leave = [downsampling(728, 728, 1024), *separable(1024, 1536), nn.ReLU(), *separable(1536, 2048), nn.ReLU()]
    return nn.Sequential(*stem, *entry, *[middle() for _ in range(8)], *leave, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(2048, 1000))


# Network, image, classes.
MODELS = {
    "mlp": (mlp, (1, 28, 28), 10),
    "lenet": (lenet, (1, 28, 28), 10),
    "mini_googlenet": (mini_googlenet, (3, 32, 32), 10),
    "resnet50": (resnet50, (3, 224, 224), 1000),
    "mobilenetv2": (mobilenetv2, (3, 224, 224), 1000),
    "xception": (xception, (3, 224, 224), 1000),
}


def peak_rss():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def times_on_cpu(step, count):
    milliseconds = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    return milliseconds


def times_on_gpu(step, count):
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


COMPILED = {"eager": lambda m: m, "compile": lambda m: torch.compile(m), "graphs": lambda m: torch.compile(m, mode="reduce-overhead")}
MEMORY = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def main():
    base_rss = peak_rss()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default PyTorch's own)")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=COMPILED, default="eager")
    parser.add_argument("--memory", choices=MEMORY, default="contiguous")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    gpu = arguments.device == "cuda"
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
    make, image, classes = MODELS[arguments.model]
    memory = MEMORY[arguments.memory]
    model = make().to(arguments.device).to(memory_format=memory).train()
    x = torch.randn(arguments.batch, *image).to(arguments.device).contiguous(memory_format=memory)
    labels = torch.randint(0, classes, (arguments.batch,)).to(arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **({"fused": True} if gpu else {}))
    forward = COMPILED[arguments.mode](model)
    precision = torch.autocast(arguments.device, torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = functional.cross_entropy(forward(x), labels)
        loss.backward()
        optimizer.step()
        losses[:] = [loss.detach()]

    for _ in range(arguments.warmup):
        step()
    milliseconds = (times_on_gpu if gpu else times_on_cpu)(step, arguments.steps)
    median = statistics.median(milliseconds)
    print(json.dumps({
        "program": f"pytorch {torch.__version__} {arguments.mode} {arguments.memory}", "model": arguments.model,
        "batch": arguments.batch, "precision": arguments.precision, "threads": torch.get_num_threads(), "steps": arguments.steps,
        "median_ms": median, "min_ms": min(milliseconds), "samples_per_second": 1e3 * arguments.batch / median, "loss": losses[0].item(),
        "base_rss_bytes": base_rss, "peak_rss_bytes": peak_rss(), "device_bytes": torch.cuda.max_memory_allocated() if gpu else 0,
    }))


if __name__ == "__main__":
    main()
