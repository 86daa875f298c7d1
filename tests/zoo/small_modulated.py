"""Small models in which each sample is convolved by filters of its own, which stand side by side as groups of one convolution. Their files
are of a fixed batch: the groups are its samples."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Row, Values, image

HELD = ("eval17.b2", "dynamo20.b2")


class Modulated(nn.Module):
    """StyleGAN2's: filters are scaled by the style and normalized."""

    def __init__(self, channels, filters, size, up=False):
        super().__init__()
        self.weight, self.style, self.up = nn.Parameter(torch.randn(1, filters, channels, size, size) / size), nn.Linear(16, channels), up

    def forward(self, x, style):
        batch, channels, height, width = x.shape
        w = self.weight * (1 + self.style(style)).view(batch, 1, channels, 1, 1)
        w = w * torch.rsqrt(w.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        filters, size = w.shape[1], w.shape[-1]
        x = x.reshape(1, batch * channels, height, width)
        if self.up:
            w = w.transpose(1, 2).reshape(batch * channels, filters, size, size)
            y = F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=batch)
        else:
            y = F.conv2d(x, w.reshape(batch * filters, channels, size, size), padding=size // 2, groups=batch)
        return y.view(batch, filters, y.shape[2], y.shape[3])


class StyleGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.mapping, self.start = nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.2)), nn.Parameter(torch.randn(1, 8, 4, 4))
        self.first, self.second, self.colours = Modulated(8, 8, 3), Modulated(8, 6, 3, up=True), Modulated(6, 3, 1)

    def forward(self, z):
        style = self.mapping(z)
        x = F.leaky_relu(self.first(self.start.repeat(z.shape[0], 1, 1, 1), style), 0.2)
        return self.colours(F.leaky_relu(self.second(x, style), 0.2), style)


class MixedFilters(nn.Module):
    """CondConv's: filters and biases are mixed by what an image holds, in two groups."""

    def __init__(self):
        super().__init__()
        self.enter, self.route, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4), nn.Linear(12, 10)
        self.weight, self.bias = nn.Parameter(torch.randn(4, 12 * 4 * 9) / 6), nn.Parameter(torch.randn(4, 12))

    def forward(self, x):
        x = torch.relu(self.enter(x))
        batch, channels, height, width = x.shape
        mix = torch.sigmoid(self.route(x.mean((2, 3))))
        y = F.conv2d(x.reshape(1, batch * channels, height, width), (mix @ self.weight).view(batch * 12, 4, 3, 3), (mix @ self.bias).view(-1),
                     padding=1, groups=2 * batch)
        return self.head(torch.relu(y.view(batch, 12, height, width)).mean((2, 3)))


ROWS = [
    Row("style_generator", "small", StyleGenerator, {"z": Values((16,))}, Values((3, 8, 8)), variants=HELD),
    Row("mixed_filters", "small", MixedFilters, {"x": image(16)}, variants=HELD),
]
