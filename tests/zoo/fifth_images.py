"""Small models that make images of a fifth sample, chosen before anything of it was run."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values, image
from small_tables import Two

NOISE = {"x": image(16), "t": Uniform(())}
WORDS = 20


def angles(t, width):
    """Sines and cosines of a time, over a range of frequencies."""
    frequencies = torch.exp(-math.log(1000) * torch.arange(width // 2) / (width // 2))
    both = t[:, None] * frequencies[None] * 1000
    return torch.cat([both.cos(), both.sin()], -1)


class ResBlock(nn.Module):
    """Two convolutions, the second normalization scaled and shifted by the time."""

    def __init__(self, a, b):
        super().__init__()
        self.one, self.two = nn.GroupNorm(4, a), nn.GroupNorm(4, b)
        self.first, self.second, self.time = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1), nn.Linear(32, 2 * b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        y = self.two(self.first(F.silu(self.one(x)))) * (1 + scale) + shift
        return self.skip(x) + self.second(F.silu(y))


class Cross(nn.Module):
    """Attention among places, attention to words, and a gated layer."""

    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.words = nn.MultiheadAttention(width, 4, batch_first=True), nn.MultiheadAttention(width, 4, kdim=12, vdim=12, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x, words):
        n, c, h, w = x.shape
        y = x.flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.own(z, z, z, need_weights=False)[0]
        y = y + self.words(self.norms[1](y), words, words, need_weights=False)[0]
        a, gate = self.up(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(a * F.gelu(gate))
        return x + y.transpose(1, 2).reshape(n, c, h, w)


class LatentDiffusion(nn.Module):
    """The noise in a latent, told by a time and words."""

    def __init__(self):
        super().__init__()
        self.table, self.time = nn.Embedding(WORDS, 12), nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.enter, self.out = nn.Conv2d(3, 16, 3, padding=1), nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))
        self.a, self.b, self.c = ResBlock(16, 16), ResBlock(24, 24), ResBlock(40, 16)
        self.down, self.up = nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.Conv2d(24, 24, 3, padding=1)
        self.cross = Cross(24)

    def forward(self, x, t, words):
        t, words = self.time(angles(t, 16)), self.table(words)
        kept = self.a(self.enter(x), t)
        y = self.cross(self.b(self.down(kept), t), words)
        y = self.up(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.out(self.c(torch.cat([y, kept], 1), t))


def consistency(m, x, t):
    """What is there without noise: the network's output and the input, mixed as the noise's size says."""
    sigma = (0.002 ** (1 / 7) + t * (80 ** (1 / 7) - 0.002 ** (1 / 7))) ** 7
    s = sigma[:, None, None, None]
    keep = 0.25 / ((s - 0.002) ** 2 + 0.25)
    out, enter = 0.5 * (s - 0.002) / (s * s + 0.25).sqrt(), 1 / (s * s + 0.25).sqrt()
    h = m.time(angles(sigma.log() / 4000, 16))
    y = F.silu(m.first(enter * x) + m.place(h)[:, :, None, None])
    return keep * x + out * m.last(F.silu(m.middle(y)) + y)


class UViT(nn.Module):
    """Time as a token, and every second block fed with what an earlier one made."""

    def __init__(self):
        super().__init__()
        self.patch, self.out = nn.Conv2d(3, 32, 4, stride=4), nn.Linear(32, 48)
        self.places = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        self.time = nn.Linear(32, 32)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(5))
        self.skips = nn.ModuleList(nn.Linear(64, 32) for _ in range(2))
        self.norm, self.smooth = nn.LayerNorm(32), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x, t):
        y = torch.cat([self.time(angles(t, 32)).unsqueeze(1), self.patch(x).flatten(2).transpose(1, 2)], 1) + self.places
        kept = []
        for block in self.blocks[:2]:
            y = block(y)
            kept.append(y)
        y = self.blocks[2](y)
        for block, skip in zip(self.blocks[3:], self.skips):
            y = block(skip(torch.cat([y, kept.pop()], -1)))
        y = self.out(self.norm(y)[:, 1:])
        y = y.view(-1, 4, 4, 4, 4, 3).permute(0, 5, 1, 3, 2, 4).reshape(-1, 3, 16, 16)
        return self.smooth(y)


def gaussian_splats(m, where):
    """Colours at places: Gaussians with turned axes, each with an opacity, one behind the other."""
    angle, size = m.angle, m.size.exp()
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)], -2)
    inverse = turn @ torch.diag_embed(1 / size ** 2) @ turn.transpose(1, 2)
    d = where.unsqueeze(2) - m.centre
    alpha = torch.sigmoid(m.opacity) * torch.exp(-0.5 * torch.einsum("npgi,gij,npgj->npg", d, inverse, d))
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha[..., :-1]], -1), -1)
    return (alpha * through) @ torch.sigmoid(m.colour)


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.5)


def row(name, make, inputs, labels):
    return Row(name, "small", make, inputs, labels)


ROWS = [
    row("latent_diffusion", LatentDiffusion, {**NOISE, "words": Values((5,), below=WORDS)}, Values((3, 16, 16))),
    row("consistency", lambda: Two(consistency, time=nn.Linear(16, 24), first=nn.Conv2d(3, 16, 3, padding=1), place=nn.Linear(24, 16), middle=nn.Conv2d(16, 16, 3, padding=1),
                                   last=nn.Conv2d(16, 3, 3, padding=1)), NOISE, Values((3, 16, 16))),
    row("u_vit", UViT, NOISE, Values((3, 16, 16))),
    row("gaussian_splats", lambda: Call(gaussian_splats, centre=p(6, 2), angle=p(6), size=p(6, 2), opacity=p(6), colour=p(6, 3)), {"where": Values((9, 2))}, Values((9, 3))),
]
