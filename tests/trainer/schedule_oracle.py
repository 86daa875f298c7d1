"""Prints the rates of PyTorch's schedules: schedule_oracle.py FILE, lines of STEPS <tab> PYTHON, which makes s of the optimizer o."""
import sys
import warnings

try:
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(3)

warnings.simplefilter("ignore")
L = torch.optim.lr_scheduler
for line in open(sys.argv[1]).read().splitlines():
    steps, source = line.split("\t")
    o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    scope = {"o": o, "L": L}
    exec(source, scope)
    rates = []
    for step in range(int(steps)):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        measure = scope.get("measures")
        scope["s"].step(*([measure[step]] if measure else []))
    print(*(f"{rate:.17g}" for rate in rates))
