"""Takes the steps that tandem took (optimizer_oracle_test.cpp) by torch.optim, or by the papers' formulas where PyTorch has none.

optimizer_oracle.py FOLDER: reads FOLDER/run.npz and FOLDER/cases.txt, lines NAME <tab> REFERENCE; fails where a weight differs.
"""
import pathlib
import sys

try:
    import numpy
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(3)

TOLERANCE = 1e-6  # of the largest weight


class Paper(torch.optim.Optimizer):
    """An optimizer whose step is `move(p, g, state, group)`, with t in the state."""

    def __init__(self, parameters, **numbers):
        super().__init__(parameters, dict(numbers))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["t"] = state.get("t", 0) + 1
                self.move(p, p.grad, state, group)


class Lion(Paper):  # Chen et al., "Symbolic discovery of optimization algorithms", 2023, program 1
    def move(self, p, g, state, o):
        m = state.setdefault("m", torch.zeros_like(p))
        update = torch.sign(o["b1"] * m + (1 - o["b1"]) * g)
        p -= o["lr"] * (update + o["wd"] * p)
        state["m"] = o["b2"] * m + (1 - o["b2"]) * g


class Lamb(Paper):  # You et al., "Large batch optimization for deep learning", 2020, algorithm 2
    def move(self, p, g, state, o):
        m = state["m"] = o["b1"] * state.get("m", 0) + (1 - o["b1"]) * g
        v = state["v"] = o["b2"] * state.get("v", 0) + (1 - o["b2"]) * g * g
        r = m / (1 - o["b1"] ** state["t"]) / ((v / (1 - o["b2"] ** state["t"])).sqrt() + o["eps"]) + o["wd"] * p
        p -= o["lr"] * p.norm() / r.norm() * r


class Lars(Paper):  # You et al., "Large batch training of convolutional networks", 2017, algorithm 1
    def move(self, p, g, state, o):
        rate = o["lr"] * o["trust"] * p.norm() / (g.norm() + o["wd"] * p.norm())
        v = state["v"] = o["m"] * state.get("v", 0) + rate * (g + o["wd"] * p)
        p -= v


class Muon:
    """torch.optim.Muon, whose products are in bfloat16, with those of the weights; other tensors by AdamW."""

    def __init__(self, matrices, others, lr):
        self.rate, self.matrices, self.moments = lr, matrices, {}
        self.others = torch.optim.AdamW(others, lr=lr, weight_decay=0.1)

    @torch.no_grad()
    def step(self):
        self.others.step()
        for p in self.matrices:
            m = self.moments[p] = torch.lerp(self.moments.get(p, torch.zeros_like(p)), p.grad, 0.05)
            x = torch.lerp(p.grad, m, 0.95)
            x = x.T if x.shape[0] > x.shape[1] else x
            x = x / x.norm().clamp(min=1e-7)
            for _ in range(5):
                gram = x @ x.T
                x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
            x = x.T if p.shape[0] > p.shape[1] else x
            p *= 1 - self.rate * 0.1
            p -= self.rate * max(1, p.shape[0] / p.shape[1]) ** 0.5 * x


def clip_values(limit):
    return lambda parameters: torch.nn.utils.clip_grad_value_(parameters, limit)


def clip_norm(limit):
    return lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, limit)


def clip_each(limit):
    return lambda parameters: [torch.nn.utils.clip_grad_norm_([p], limit) for p in parameters]


def main(folder):
    run = numpy.load(folder / "run.npz")
    failed = 0
    for line in (folder / "cases.txt").read_text().splitlines():
        name, reference = line.split("\t")
        w, b = (torch.nn.Parameter(torch.from_numpy(run[f"first/{p}"]).double()) for p in ("w", "b"))
        scope = dict(globals(), w=w, b=b, p=[w, b], clip=lambda parameters: None, averaged=None)
        exec(reference, scope)
        optimizer = scope["o"]
        for step in range(len(run["gradients/w"])):
            w.grad, b.grad = (torch.from_numpy(run[f"gradients/{p}"][step]).double() for p in ("w", "b"))
            scope["clip"]([w, b])
            optimizer.step()
        for parameter, ours in ((w, run[f"{name}/w"]), (b, run[f"{name}/b"])):
            theirs = parameter.detach().numpy()
            error = numpy.abs(theirs - ours).max() / numpy.abs(theirs).max()
            moved = numpy.abs(theirs - run["first/w" if parameter is w else "first/b"]).max()
            if not error <= TOLERANCE or moved < 1e-4:
                failed += 1
                print(f"{name}: differs by {error:.2e} of the largest weight, which moved by {moved:.2e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
