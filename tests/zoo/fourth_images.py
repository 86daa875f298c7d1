"""Small models over images of a fourth sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values, image
from small_tables import Two, layers
from third_images import FEW, PIXELS, SMALL, conv


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    """Attention and an MLP, scaled, shifted and gated by what the time and the class say."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width))
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.adapt(c).chunk(6, dim=1)
        h = modulate(self.norm1(x), shift_a, scale_a)
        x = x + gate_a.unsqueeze(1) * self.attention(h, h, h, need_weights=False)[0]
        return x + gate_m.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_m, scale_m))


class DiT(nn.Module):
    def __init__(self, width=32, patch=4, size=16):
        super().__init__()
        self.patch, self.side = patch, size // patch
        self.enter = nn.Conv2d(3, width, patch, patch)
        self.register_buffer("places", torch.randn(1, self.side ** 2, width))
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.classes = nn.Embedding(5, width)
        self.blocks = nn.ModuleList(DiTBlock(width) for _ in range(2))
        self.norm, self.adapt = nn.LayerNorm(width, elementwise_affine=False), nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.out = nn.Linear(width, patch * patch * 3)

    def forward(self, x, t, kind):
        rates = torch.exp(-9.21 * torch.arange(8, dtype=torch.float32) / 8)
        angles = t[:, None] * 1000.0 * rates[None]
        c = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)) + self.classes(kind)
        y = self.enter(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            y = block(y, c)
        y = self.out(modulate(self.norm(y), *self.adapt(c).chunk(2, dim=1)))
        y = y.reshape(x.shape[0], self.side, self.side, self.patch, self.patch, 3)
        return torch.einsum("nhwpqc->nchpwq", y).reshape(x.shape[0], 3, self.side * self.patch, self.side * self.patch)


class SegNet(nn.Module):
    """The decoder puts values back where the encoder's pooling found them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = conv(3, 8), conv(8, 16), conv(16, 8), conv(8, 8)
        self.pool, self.unpool, self.head = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x, first = self.pool(self.a(x))
        x, second = self.pool(self.b(x))
        return self.head(self.d(self.unpool(self.c(self.unpool(x, second)), first)))


class LinkNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.e1, self.e2 = conv(3, 8), conv(8, 16, 2), conv(16, 32, 2)
        self.d2, self.d1 = self.decoder(32, 16), self.decoder(16, 8)
        self.head = nn.Conv2d(8, 4, 1)

    def decoder(self, a, b):
        return nn.Sequential(conv(a, a // 4, size=1), nn.ConvTranspose2d(a // 4, a // 4, 3, 2, 1, output_padding=1), nn.BatchNorm2d(a // 4), nn.ReLU(), conv(a // 4, b, size=1))

    def forward(self, x):
        x = self.stem(x)
        e1 = self.e1(x)
        return self.head(self.d1(self.d2(self.e2(e1)) + e1) + x)


class Pix2Pix(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 4, 2, 1), nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.InstanceNorm2d(16)),
                                   nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(16, 16, 4, 2, 1))])
        self.up = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(16, 16, 4, 2, 1, bias=False), nn.InstanceNorm2d(16), nn.Dropout(0.5)),
                                 nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(32, 8, 4, 2, 1, bias=False), nn.InstanceNorm2d(8)),
                                 nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())])

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](a)
        y = self.up[0](self.down[2](b))
        return self.up[2](torch.cat([self.up[1](torch.cat([y, b], 1)), a], 1))


def finite_scalar(m, x):
    """An autoencoder whose code is rounded to five levels; the gradient goes straight through."""
    z = torch.tanh(m.encode(x)) * 2
    z = z + (z.round() - z).detach()
    return m.decode(z / 2)


class Triplet(nn.Module):
    """Its own loss: how much nearer the positive is than the negative."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(conv(3, 8, 2), conv(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8))

    def forward(self, anchor, positive, negative):
        a, b, c = (F.normalize(self.net(v), dim=1) for v in (anchor, positive, negative))
        return F.relu((a - b).pow(2).sum(1) - (a - c).pow(2).sum(1) + 0.7)


def momentum_queue(m, query, key):
    """MoCo's scores: the other view's first, those of a queue of earlier ones after it."""
    q, k = F.normalize(m.net(query), dim=1), F.normalize(m.net(key), dim=1)
    positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
    return torch.cat([positive, torch.einsum("nc,ck->nk", q, m.queue)], dim=1) / 0.2


def sim_clr(m, left, right):
    """Its own loss over the pairs of a batch."""
    a, b = F.normalize(m.net(left), dim=1), F.normalize(m.net(right), dim=1)
    scores = a @ b.t() / 0.5
    return torch.logsumexp(scores, dim=1) - (a * b).sum(1) / 0.5


def film(m, x, words):
    """Channels scaled and shifted by what is asked."""
    _, h = m.read(m.words(words))
    scale, shift = m.make(h[-1]).chunk(2, -1)
    y = m.body(x)
    y = y + F.relu(m.norm(m.inner(y)) * (1 + scale[..., None, None]) + shift[..., None, None])
    return m.head(F.adaptive_max_pool2d(y, 1).flatten(1))


def db_net(m, x):
    """Text's places: a map of probabilities, one of thresholds, and the two by a steep sigmoid."""
    a = m.a(x)
    b = m.b(a)
    y = torch.cat([m.small(a), F.interpolate(m.large(b), scale_factor=2, mode="nearest")], 1)
    share, threshold = torch.sigmoid(m.share(y)), torch.sigmoid(m.threshold(y))
    return torch.cat([share, threshold, torch.reciprocal(1 + torch.exp(-10 * (share - threshold)))], 1)


class MonoDepth(nn.Module):
    """Depth from one image: ELU, padding by reflection, a disparity between two bounds."""

    def __init__(self):
        super().__init__()
        self.a, self.b = conv(3, 8, 2), conv(8, 16, 2)
        self.up1, self.up0 = nn.Conv2d(24, 8, 3), nn.Conv2d(8, 8, 3)
        self.out, self.pad = nn.Conv2d(8, 1, 3), nn.ReflectionPad2d(1)

    def forward(self, x):
        a = self.a((x - 0.45) / 0.225)
        y = F.interpolate(self.b(a), scale_factor=2, mode="nearest")
        y = F.elu(self.up1(self.pad(torch.cat([y, a], 1))))
        y = F.elu(self.up0(self.pad(F.interpolate(y, scale_factor=2, mode="nearest"))))
        share = torch.sigmoid(self.out(self.pad(y)))
        return 1 / (0.01 + (10 - 0.01) * share)


class HashGrid(nn.Module):
    """Features of a place, looked up by hashes of its neighbours on grids of several widths."""

    def __init__(self, size=32):
        super().__init__()
        self.tables, self.size, self.widths = nn.ModuleList(nn.Embedding(size, 2) for _ in range(3)), size, (4, 7, 12)
        self.net = layers(6, 16, 3)

    def forward(self, x):
        out = []
        for table, width in zip(self.tables, self.widths):
            place = x * width
            low = torch.floor(place)
            share, low = place - low, low.long()
            features = 0
            for dx in (0, 1):
                for dy in (0, 1):
                    hashed = torch.remainder((low[:, 0] + dx) * 1 + (low[:, 1] + dy) * 2654435761, self.size)
                    weight = (share[:, 0] if dx else 1 - share[:, 0]) * (share[:, 1] if dy else 1 - share[:, 1])
                    features = features + weight.unsqueeze(1) * table(hashed)
            out.append(features)
        return torch.sigmoid(self.net(torch.cat(out, 1)))


def elbo(m, x, noise):
    """Its own loss: what a variational autoencoder's reconstruction and its code cost."""
    mean, log_variance = m.encode(x).chunk(2, 1)
    z = mean + torch.exp(0.5 * log_variance) * noise
    y = m.decode(m.enter(z).view(-1, 8, 4, 4))
    reconstruction = F.mse_loss(y, x, reduction="none").flatten(1).sum(1)
    return reconstruction - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp(), dim=1)


def row(name, make, inputs=None, *labels, **options):
    return Row(name, "small", make, SMALL if inputs is None else inputs, *(labels or (FEW,)), **options)


ROWS = [
    row("diffusion_transformer", DiT, {"x": image(16), "t": Uniform(()), "kind": Values((), below=5)}, Values((3, 16, 16))),
    row("seg_net", SegNet, None, PIXELS, class_axis=1),
    row("link_net", LinkNet, None, PIXELS, class_axis=1),
    row("pix2pix", Pix2Pix, None, Values((3, 16, 16))),
    row("finite_scalar", lambda: Call(finite_scalar, encode=nn.Sequential(conv(3, 8, 2), nn.Conv2d(8, 4, 3, 2, 1)),
                                      decode=nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))), None, Values((3, 16, 16))),
    row("triplet", Triplet, {"anchor": image(16), "positive": image(16), "negative": image(16)}, None),
    row("momentum_queue", lambda: Two(momentum_queue, net=nn.Sequential(conv(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 8)),
                                      queue=F.normalize(torch.randn(8, 12), dim=0)), {"query": image(16), "key": image(16)}, Values((), below=13)),
    row("sim_clr", lambda: Two(sim_clr, net=nn.Sequential(conv(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 8))), {"left": image(16), "right": image(16)}, None),
    row("film", lambda: Two(film, words=nn.Embedding(11, 8), read=nn.GRU(8, 12, batch_first=True), make=nn.Linear(12, 16), body=conv(3, 8, 2), inner=nn.Conv2d(8, 8, 3, padding=1, bias=False),
                            norm=nn.BatchNorm2d(8, affine=False), head=nn.Linear(8, 4)), {"x": image(16), "words": Values((6,), below=11)}),
    row("simple_pose", lambda: nn.Sequential(conv(3, 8, 2), conv(8, 16, 2), nn.ConvTranspose2d(16, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 5, 1)), None,
        Values((5, 8, 8))),
    row("db_net", lambda: Call(db_net, a=conv(3, 8, 2), b=conv(8, 16, 2), small=nn.Conv2d(8, 8, 1), large=nn.Conv2d(16, 8, 1),
                               share=nn.Sequential(conv(16, 8), nn.ConvTranspose2d(8, 1, 2, 2)), threshold=nn.Sequential(conv(16, 8), nn.ConvTranspose2d(8, 1, 2, 2))), None,
        Values((3, 16, 16))),
    row("mono_depth", MonoDepth, None, Values((1, 16, 16))),
    row("hash_grid", HashGrid, {"x": Uniform((2,))}, Values((3,))),
    row("elbo", lambda: Two(elbo, encode=nn.Sequential(conv(3, 8, 2), conv(8, 8, 2), nn.Flatten(), nn.Linear(128, 12)), enter=nn.Linear(6, 128),
                            decode=nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))), {"x": image(16), "noise": Values((6,))}, None,
        rate=0.0001),
]
