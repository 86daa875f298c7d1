"""Models whose parameters reach the output through more than a layer: norms, gates, masks, tables, mixtures."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from architecture import Architecture, Call, Values, through

ROW = Values((10,))
SEQUENCE = Values((6, 10))
TOKENS = Values((6,), below=11)
CLASSES = Values((), below=5)


def mlp():
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 5))


def layer_norm_mlp():
    return nn.Sequential(nn.Linear(10, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5))


def weight_norm_hook():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(10, 16)), nn.ReLU(), nn.utils.weight_norm(nn.Linear(16, 5)))


def weight_norm():
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(10, 16)), nn.ReLU(), parametrizations.weight_norm(nn.Linear(16, 5)))


class Divided(nn.Module):
    """Spectral normalisation's form: the weights divided by the norm of what they do to a kept vector."""

    def __init__(self, inputs):
        super().__init__()
        self.register_buffer("u", F.normalize(torch.randn(inputs), dim=0))

    def forward(self, w):
        return w / torch.sqrt((w @ self.u).pow(2).sum() + 1e-6)


def spectral_division():
    first, second = nn.Linear(10, 16), nn.Linear(16, 5)
    return nn.Sequential(through(first, weight=Divided(10)), nn.ReLU(), through(second, weight=Divided(16)))


def frozen_embedding():
    table = nn.Embedding(11, 10)
    table.weight.requires_grad_(False)
    return nn.Sequential(table, nn.Linear(10, 12), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5))


def mean_of_embeddings():
    return Call(lambda m, tokens: m.head(m.words(tokens).mean(1)), words=nn.Embedding(11, 10), head=nn.Linear(10, 5))


def embedding_bag():
    return nn.Sequential(nn.EmbeddingBag(11, 10, mode="mean"), nn.Linear(10, 5))


def gates():
    def function(m, x):
        y = torch.relu(m.enter(x))
        return m.leave(m.alpha * y + m.beta * m.middle(y))
    model = Call(function, enter=nn.Linear(10, 12), middle=nn.Linear(12, 12), leave=nn.Linear(12, 5), alpha=nn.Parameter(torch.zeros(12)),
                 beta=nn.Parameter(torch.tensor(0.5)))
    return through(model, alpha=torch.sigmoid, beta=torch.tanh)


def temperature():
    return Call(lambda m, x: m.head(x) / m.temperature + m.shift, head=nn.Linear(10, 5), temperature=nn.Parameter(torch.tensor(1.5)),
                shift=nn.Parameter(torch.zeros(1)))


def layer_scale():
    def function(m, x):
        y = m.enter(x)
        return m.leave(y + m.gamma * F.gelu(m.middle(y)))
    return Call(function, enter=nn.Linear(10, 12), middle=nn.Linear(12, 12), leave=nn.Linear(12, 5), gamma=nn.Parameter(torch.full((12,), 0.1)))


def mamba():
    """A = -exp(logarithm), a step by softplus, and the state's recurrence unrolled over the sequence."""

    def function(m, x):
        y = m.enter(x)
        step = F.softplus(m.step(y) + m.step_bias)
        state = torch.zeros_like(y[:, 0])
        outputs = []
        for t in range(6):
            state = torch.exp(step[:, t] * m.A) * state + step[:, t] * y[:, t]
            outputs.append(state + m.D * y[:, t])
        return m.leave(torch.stack(outputs, 1).mean(1))
    model = Call(function, enter=nn.Linear(10, 12), step=nn.Linear(12, 12, bias=False), leave=nn.Linear(12, 5), D=nn.Parameter(torch.ones(12)),
                 A=nn.Parameter(torch.log(torch.arange(1.0, 13.0))), step_bias=nn.Parameter(torch.zeros(12)))
    return through(model, A=lambda logarithm: -torch.exp(logarithm))


def sequence_first():
    """Time before the batch between the layers, and a convolution over time."""

    def function(m, x):
        s = x.transpose(0, 1)                                   # [T, N, C]
        y = torch.relu(m.enter(s.reshape(-1, 10))).view(6, -1, 12)
        y = m.over_time(y.permute(1, 2, 0))                     # [N, C, T]
        return m.leave(y.permute(2, 0, 1).mean(0))
    return Call(function, enter=nn.Linear(10, 12), over_time=nn.Conv1d(12, 12, 3, padding=1), leave=nn.Linear(12, 5))


def mixture():
    def function(m, x):
        return m.share[0] * m.first(x) + m.share[1] * torch.tanh(m.second(x)) + m.share[2] * m.third(x).relu()
    model = Call(function, first=nn.Linear(10, 5), second=nn.Linear(10, 5), third=nn.Linear(10, 5), share=nn.Parameter(torch.zeros(3)))
    return through(model, share=lambda logits: torch.softmax(logits, 0))


def formed_weights():
    """Weights that are padded, clipped and chosen by a mask before they multiply."""

    def function(m, x):
        return F.linear(torch.relu(F.linear(F.linear(x, m.padded), m.clipped)), m.chosen)
    model = Call(function, padded=nn.Parameter(0.3 * torch.randn(12, 8)), clipped=nn.Parameter(0.2 * torch.randn(12, 12)),
                 chosen=nn.Parameter(0.3 * torch.randn(5, 12)))
    other = Call(lambda m, w: torch.where(m.mask, w, -m.other), mask=(torch.arange(60) % 3 == 0).reshape(5, 12),
                 other=nn.Parameter(0.3 * torch.randn(5, 12)))
    return through(model, padded=lambda w: F.pad(w, (1, 1)), clipped=lambda w: torch.clamp(w, -0.2, 0.2), chosen=other)


def buffers():
    """Statistics of the data and a fixed projection, kept as buffers."""

    def function(m, x):
        return m.head(torch.relu(m.enter((x - m.mean) / m.deviation)) @ m.projection)
    return Call(function, mean=0.1 * torch.randn(10), deviation=1 + 0.1 * torch.rand(10), projection=0.3 * torch.randn(12, 12),
                enter=nn.Linear(10, 12), head=nn.Linear(12, 5))


ARCHITECTURES = [
    Architecture("mlp", mlp, ROW, CLASSES),
    Architecture("mlp_fresh_norms", lambda: nn.Sequential(nn.Linear(10, 12), nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 12), nn.LayerNorm(12),
                                                          nn.ReLU(), nn.Linear(12, 5)), ROW, CLASSES, fresh=True),
    Architecture("layer_norm_mlp", layer_norm_mlp, ROW, CLASSES),
    Architecture("weight_norm_hook", weight_norm_hook, ROW, CLASSES),
    Architecture("weight_norm", weight_norm, ROW, CLASSES),
    Architecture("spectral_division", spectral_division, ROW, CLASSES, assumed={"torchscript_*": [(10,), (16,)]}),
    Architecture("frozen_embedding", frozen_embedding, TOKENS, CLASSES),
    Architecture("mean_of_embeddings", mean_of_embeddings, TOKENS, CLASSES),
    Architecture("embedding_bag", embedding_bag, TOKENS, CLASSES),
    Architecture("gates", gates, ROW, CLASSES),
    Architecture("temperature", temperature, ROW, CLASSES),
    Architecture("layer_scale", layer_scale, ROW, CLASSES),
    Architecture("mamba", mamba, SEQUENCE, CLASSES),
    Architecture("sequence_first", sequence_first, SEQUENCE, CLASSES),
    Architecture("mixture", mixture, ROW, CLASSES),
    Architecture("formed_weights", formed_weights, ROW, CLASSES),
    Architecture("buffers", buffers, ROW, CLASSES, assumed={"torchscript_*": [(12, 12)]}),
]
