"""Small models over images and video, of the kinds that people write themselves."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Values, image

SMALL = {"x": image(16)}
ONE = {"x": image(16, 1)}


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(256, 32), nn.Tanh(), nn.Linear(32, 10))


def convolutions(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """`up`: transposed (convolution), nearest, bilinear, bicubic or shuffle (PixelShuffle)."""

    def __init__(self, up):
        super().__init__()
        self.enter, self.down, self.deep = convolutions(3, 8), convolutions(8, 16), convolutions(16, 32)
        self.leave2, self.leave1, self.head = convolutions(32, 16), convolutions(16, 8), nn.Conv2d(8, 4, 1)
        self.up2, self.up1 = self.upsample(up, 32, 16), self.upsample(up, 16, 8)

    @staticmethod
    def upsample(up, inputs, outputs):
        if up == "transposed":
            return nn.ConvTranspose2d(inputs, outputs, 2, 2)
        if up == "shuffle":
            return nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 1), nn.PixelShuffle(2))
        corners = {} if up == "nearest" else {"align_corners": up == "bilinear"}
        return nn.Sequential(nn.Upsample(scale_factor=2, mode=up, **corners), nn.Conv2d(inputs, outputs, 1))

    def forward(self, x):
        a = self.enter(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.deep(F.max_pool2d(b, 2))
        b = self.leave2(torch.cat([b, self.up2(c)], 1))
        return self.head(self.leave1(torch.cat([a, self.up1(b)], 1)))


class UNetBySize(UNet):
    """Upsamples to the size of the other branch, as many segmentation models do."""

    def __init__(self):
        super().__init__("bilinear")
        self.narrow2, self.narrow1 = nn.Conv2d(32, 16, 1), nn.Conv2d(16, 8, 1)
        del self.up2, self.up1

    def forward(self, x):
        a = self.enter(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.deep(F.max_pool2d(b, 2))
        b = self.leave2(torch.cat([b, self.narrow2(F.interpolate(c, size=b.shape[2:], mode="bilinear", align_corners=False))], 1))
        return self.head(self.leave1(torch.cat([a, self.narrow1(F.interpolate(b, size=a.shape[2:], mode="nearest"))], 1)))


def conv_autoencoder():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid())


def vae(m, x, noise):
    h = torch.relu(m.enter(x.flatten(1)))
    mean, log_variance = m.mean(h), m.log_variance(h)
    z = mean + noise * torch.exp(0.5 * log_variance)
    y = torch.sigmoid(m.leave(torch.relu(m.wide(z))))
    divergence = -0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum(1)
    return ((y - x.flatten(1)) ** 2).sum(1) + divergence


class TwoInputs(Call):
    def forward(self, x, y):
        return self.function(self, x, y)


def make_vae():
    return TwoInputs(vae, enter=nn.Linear(256, 32), mean=nn.Linear(32, 4), log_variance=nn.Linear(32, 4), wide=nn.Linear(4, 32), leave=nn.Linear(32, 256))


def dcgan_generator():
    return nn.Sequential(nn.Unflatten(1, (16, 1, 1)), nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
                         nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


def dcgan_discriminator():
    return nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2),
                         nn.Conv2d(16, 1, 4), nn.Flatten())


def spectral_discriminator():
    n = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(n(nn.Conv2d(3, 8, 4, 2, 1)), nn.LeakyReLU(0.2), n(nn.Conv2d(8, 16, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(),
                         n(nn.Linear(256, 1)))


def super_resolution():
    return nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 12, 3, padding=1),
                         nn.PixelShuffle(2))


def spatial_transformer(m, x):
    theta = m.locate(x).view(-1, 2, 3)
    return m.classify(F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False))


def make_spatial_transformer():
    locate = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6))
    with torch.no_grad():
        locate[-1].weight.mul_(0.1)
        locate[-1].bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))
    return Call(spatial_transformer, locate=locate, classify=nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(392, 10)))


def squash(s):
    square = (s ** 2).sum(-1, keepdim=True)
    return square / (1 + square) * s / torch.sqrt(square + 1e-8)


def capsules(m, x):
    """Dynamic routing, three times."""
    u = squash(m.primary(F.relu(m.enter(x))).view(x.shape[0], -1, 4))
    votes = torch.einsum("bnd,nmde->bnme", u, m.weight)
    logits = torch.zeros_like(votes[..., :1])
    for _ in range(3):
        v = squash((torch.softmax(logits, 2) * votes).sum(1, keepdim=True))
        logits = logits + (votes * v).sum(-1, keepdim=True)
    return v.squeeze(1).norm(dim=-1)


def make_capsules():
    return Call(capsules, enter=nn.Conv2d(1, 8, 5, 2), primary=nn.Conv2d(8, 8, 3, 2), weight=nn.Parameter(torch.randn(8, 10, 4, 6) * 0.1))


def video():
    return nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 10))


class ConvLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.head = nn.Conv2d(3 + 8, 32, 3, padding=1), nn.Linear(8, 10)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 8, x.shape[3], x.shape[4], dtype=x.dtype)
        c = h
        for step in range(x.shape[1]):
            i, f, o, g = self.gates(torch.cat([x[:, step], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h.mean((2, 3)))


def siamese(m, x, y):
    a, b = F.normalize(m.net(x), dim=1), F.normalize(m.net(y), dim=1)
    return torch.stack([(a * b).sum(1), 1 - (a - b).norm(dim=1)], 1) * m.scale


def make_siamese():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(392, 16))
    return TwoInputs(siamese, net=net, scale=nn.Parameter(torch.tensor(3.0)))


class FiLM(nn.Module):
    """A diffusion model's network: sinusoidal times, and a scale and shift of every channel from them."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.norm, self.middle = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x, t):
        frequencies = torch.exp(-torch.arange(8, dtype=x.dtype) * 0.5)
        angles = t * 100 * frequencies
        scale, shift = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None].chunk(2, 1)
        h = self.enter(x)
        return self.leave(h + self.middle(F.silu(self.norm(h) * (1 + scale) + shift)))


def style_transfer():
    def block(i, o, k, s):
        return [nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, s), nn.InstanceNorm2d(o, affine=True), nn.ReLU()]
    return nn.Sequential(*block(3, 8, 9, 1), *block(8, 16, 3, 2), nn.Upsample(scale_factor=2), *block(16, 8, 3, 1), nn.ReflectionPad2d(4), nn.Conv2d(8, 3, 9))


def fpn(m, x):
    """A feature pyramid with heads over every level, joined as detectors do."""
    a = F.relu(m.c1(x))
    b = F.relu(m.c2(a))
    c = F.relu(m.c3(b))
    p3 = m.l3(c)
    p2 = m.l2(b) + F.interpolate(p3, scale_factor=2.0, mode="nearest")
    p1 = m.l1(a) + F.interpolate(p2, scale_factor=2.0, mode="nearest")
    return torch.cat([m.head(p).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 5) for p in (p1, p2, p3)], 1)


def make_fpn():
    return Call(fpn, c1=nn.Conv2d(3, 8, 3, 2, 1), c2=nn.Conv2d(8, 16, 3, 2, 1), c3=nn.Conv2d(16, 32, 3, 2, 1), l1=nn.Conv2d(8, 8, 1),
                l2=nn.Conv2d(16, 8, 1), l3=nn.Conv2d(32, 8, 1), head=nn.Conv2d(8, 5, 3, padding=1))


def yolo(m, x):
    """One scale of a detector: anchors, a grid, boxes."""
    y = m.net(x).view(x.shape[0], 2, 6, 4, 4).permute(0, 1, 3, 4, 2)
    steps = torch.arange(4, dtype=x.dtype)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1)
    centre = (torch.sigmoid(y[..., :2]) * 2 - 0.5 + grid) * 4
    size = (torch.sigmoid(y[..., 2:4]) * 2) ** 2 * m.anchors.view(1, 2, 1, 1, 2)
    return torch.cat([centre, size, y[..., 4:]], -1).reshape(x.shape[0], -1, 6)


def make_yolo():
    net = nn.Sequential(nn.Conv2d(3, 8, 6, 2, 2), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(),
                        nn.MaxPool2d(5, 1, 2), nn.Conv2d(16, 12, 1))
    return Call(yolo, net=net, anchors=torch.tensor([[3.0, 4.0], [6.0, 5.0]]))


def vq_vae(m, x):
    """The nearest of a table's rows. (A straight-through estimator needs detach, which no exporter writes.)"""
    z = m.enter(x).permute(0, 2, 3, 1)
    distance = ((z.unsqueeze(3) - m.book.weight) ** 2).sum(-1)
    q = m.book(distance.argmin(-1))
    return m.leave(torch.cat([z, q], 3).permute(0, 3, 1, 2))


def make_vq_vae():
    return Call(vq_vae, enter=nn.Conv2d(3, 8, 4, 4), leave=nn.ConvTranspose2d(16, 3, 4, 4), book=nn.Embedding(12, 8))


def row(name, make, inputs=None, *labels, **options):
    return Row(name, "small", make, SMALL if inputs is None else inputs, *labels, **options)


PIXELS = Values((16, 16), below=4)
ROWS = [
    row("lenet", lenet, ONE),
    *[row(f"unet_{up}", lambda up=up: UNet(up), None, PIXELS, class_axis=1) for up in ("transposed", "nearest", "bilinear", "bicubic", "shuffle")],
    row("unet_by_size", UNetBySize, None, PIXELS, class_axis=1),
    row("conv_autoencoder", conv_autoencoder, None, Values((3, 16, 16))),
    row("vae", make_vae, {"x": image(16, 1), "noise": Values((4,))}, None, rate=0.001),
    row("dcgan_generator", dcgan_generator, {"z": Values((16,))}, Values((3, 16, 16))),
    row("dcgan_discriminator", dcgan_discriminator, None, Values((1,))),
    row("spectral_discriminator", spectral_discriminator, None, Values((1,))),
    row("super_resolution", super_resolution, None, Values((3, 32, 32))),
    row("spatial_transformer", make_spatial_transformer, ONE),
    row("capsules", make_capsules, ONE),
    row("video_3d", video, {"x": Values((3, 4, 16, 16))}),
    row("conv_lstm", ConvLSTM, {"x": Values((4, 3, 8, 8))}),
    row("siamese", make_siamese, {"left": image(16, 1), "right": image(16, 1)}, Values((), below=2)),
    row("diffusion", FiLM, {"x": image(16, 1), "t": Values((1,))}, Values((1, 16, 16))),
    row("style_transfer", style_transfer, None, Values((3, 16, 16))),
    row("feature_pyramid", make_fpn, None, Values((84,), below=5)),
    row("yolo", make_yolo, None, Values((32, 6))),
    row("vq_vae", make_vq_vae, None, Values((3, 16, 16))),
]
