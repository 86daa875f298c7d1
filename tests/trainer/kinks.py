"""Compares gradients at kinks with PyTorch's. Argument: a file of five lines a row: the name of a function below, w, v, and the gradients of
the sum of the function's results by both; where v is no weight the last is empty."""
import math
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("needs", missing)
    sys.exit(3)

functions = {
    "relu": lambda w, v: F.relu(w),
    "leaky_relu": lambda w, v: F.leaky_relu(w, 0.25),
    "prelu": lambda w, v: torch.cat([F.prelu(a.reshape(1), b.reshape(1)) for a, b in zip(w, v)]),
    "elu": lambda w, v: F.elu(w, 2.0),
    "celu": lambda w, v: F.celu(w, 2.0),
    "selu": lambda w, v: F.selu(w),
    "hard_sigmoid": lambda w, v: F.hardsigmoid(w),
    "hard_swish": lambda w, v: F.hardswish(w),
    "thresholded_relu": lambda w, v: F.threshold(w, 1.0, 0.0),
    "hard_shrink": lambda w, v: F.hardshrink(w, 0.5),
    "soft_shrink": lambda w, v: F.softshrink(w, 0.5),
    "softsign": lambda w, v: F.softsign(w),
    "softplus": lambda w, v: F.softplus(w),
    "abs": lambda w, v: torch.abs(w),
    "sign": lambda w, v: torch.sign(w),
    "floor": lambda w, v: torch.floor(w),
    "round": lambda w, v: torch.round(w),
    "sqrt": lambda w, v: torch.sqrt(w),
    "pow_half": lambda w, v: w ** 0.5,
    "pow_one": lambda w, v: w ** 1.0,
    "pow_two": lambda w, v: w ** 2.0,
    "pow_three": lambda w, v: w ** 3.0,
    "pow_zero": lambda w, v: w ** 0.0,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "amax": lambda w, v: torch.amax(w),
    "amin": lambda w, v: torch.amin(w),
    "norm_1": lambda w, v: torch.linalg.vector_norm(w, 1),
    "prod_one_zero": lambda w, v: torch.prod(w),
    "prod_two_zeros": lambda w, v: torch.prod(w),
    "fmod": lambda w, v: torch.fmod(w, v.detach()),
    "clip": lambda w, v: torch.clamp(w, -1, 1),
    "max_pool": lambda w, v: F.max_pool1d(w.reshape(1, 1, -1), 3, 1, 1),
    "global_max_pool": lambda w, v: F.adaptive_max_pool1d(w.reshape(1, 1, -1), 1),
    "top_k": lambda w, v: torch.topk(w, 1)[0],
}


def close(got, want):
    return len(got) == len(want) and all(a == b or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-7) for a, b in zip(got, want))


with open(sys.argv[1], encoding="utf-8") as file:
    lines = file.read().split("\n")
wrong = 0
for i in range(0, len(lines) - 1, 5):
    name, (w, v, by_w, by_v) = lines[i], ([float(n) for n in line.split()] for line in lines[i + 1:i + 5])
    w, v = (torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in (w, v))
    functions[name](w, v).sum().backward()
    none = lambda x: [0.0] * len(x) if x.grad is None else x.grad.tolist()
    if not close(by_w, none(w)) or (by_v and not close(by_v, none(v))):
        print(name, "at", w.tolist(), v.tolist(), "gives", by_w, by_v, "expected", none(w), none(v))
        wrong += 1
sys.exit(wrong > 0)
