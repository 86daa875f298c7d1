"""Models over images: convolutions, their normalisations, and what stands between them."""
import torch
from torch import nn
from torch.nn import functional as F

from architecture import Architecture, Call, Values, through

IMAGE = Values((3, 8, 8))
CLASSES = Values((), below=5)


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)]


def lenet():
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 5))


def conv_bn(inputs, outputs, kernel=3, stride=1, groups=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(inputs, outputs, 3, stride), nn.ReLU(), *conv_bn(outputs, outputs))
        self.shortcut = nn.Sequential(*conv_bn(inputs, outputs, 1, stride))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def mobilenet():
    return nn.Sequential(*conv_bn(3, 8), nn.ReLU6(), *conv_bn(8, 16, 1), nn.ReLU6(), *conv_bn(16, 16, 3, 2, groups=16), nn.ReLU6(),
                         *conv_bn(16, 8, 1), *head(8))


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(F.silu(self.down(s))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 6, 2, 2)
        self.leave = nn.Conv2d(12, 2, 3, padding=1)

    def forward(self, x):
        wide = self.enter(x)
        return self.leave(torch.cat([wide, self.up(self.down(wide))], 1))


class Standardised(nn.Module):
    """Weight standardisation: each filter has mean 0 and deviation 1, times a gain."""

    def __init__(self, filters):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(filters, 1, 1, 1))

    def forward(self, w):
        mean = w.mean((1, 2, 3), keepdim=True)
        variance = ((w - mean) ** 2).mean((1, 2, 3), keepdim=True)
        return self.gain * (w - mean) / torch.sqrt(variance + 1e-5)


def norm_free():
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, padding=1)
    for layer in (first, second):
        through(layer, weight=Standardised(8))
    return nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), *head(8))


def convnext():
    """A block of ConvNeXt: depthwise convolution, LayerNorm over channels last, a wide layer, LayerScale."""

    def function(m, x):
        y = m.depthwise(m.stem(x)).permute(0, 2, 3, 1)
        y = m.narrow(F.gelu(m.wide(m.norm(y)))) * m.scale
        return m.head((m.stem(x) + y.permute(0, 3, 1, 2)).mean((2, 3)))

    return Call(function, stem=nn.Conv2d(3, 8, 2, 2), depthwise=nn.Conv2d(8, 8, 3, padding=1, groups=8), norm=nn.LayerNorm(8),
                wide=nn.Linear(8, 16), narrow=nn.Linear(16, 8), scale=nn.Parameter(torch.full((8,), 0.5)), head=nn.Linear(8, 5))


ARCHITECTURES = [
    Architecture("lenet", lenet, IMAGE, CLASSES),
    Architecture("conv_bn", lambda: nn.Sequential(*conv_bn(3, 8), nn.ReLU(), *conv_bn(8, 8, 3, 2), nn.ReLU(), *head(8)), IMAGE, CLASSES),
    Architecture("resnet_block", lambda: nn.Sequential(*conv_bn(3, 8), nn.ReLU(), Residual(8, 12, 2), *head(12)), IMAGE, CLASSES),
    Architecture("mobilenet", mobilenet, IMAGE, CLASSES),
    Architecture("group_norm", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), *head(8)), IMAGE, CLASSES),
    Architecture("instance_norm", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
                                                        nn.Conv2d(8, 8, 3, padding=1), nn.Flatten(), nn.Linear(512, 5)), IMAGE, CLASSES),
    Architecture("squeeze_excite", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), SqueezeExcite(8), *head(8)), IMAGE, CLASSES),
    Architecture("prelu", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(8), nn.Conv2d(8, 8, 3, 2), nn.PReLU(), *head(8)),
                 IMAGE, CLASSES),
    Architecture("unet", UNet, IMAGE, Values((2, 8, 8))),
    Architecture("weight_standardised", norm_free, IMAGE, CLASSES),
    Architecture("convnext", convnext, IMAGE, CLASSES),
]
