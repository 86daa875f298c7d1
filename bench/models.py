"""The networks that are timed, in PyTorch: those of models/, and what models/ does not hold (see export_models.py)."""
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


def resnet(counts, expansion, block):
    """Residual networks for 224x224 images; `block` gives the layers of one from its channels in, width and stride."""
    relu = nn.ReLU(inplace=True)
    layers, channels = [*conv_norm(3, 64, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, first_stride in zip((64, 128, 256, 512), counts, (1, 2, 2, 2)):
        for i in range(count):
            stride, out = first_stride if i == 0 else 1, expansion * width
            shortcut = nn.Sequential(*conv_norm(channels, out, 1, stride)) if stride != 1 or channels != out else None
            layers.append(Residual(block(channels, width, stride, relu), shortcut, relu))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet18():
    return resnet((2, 2, 2, 2), 1, lambda channels, width, stride, relu: [
        *conv_norm(channels, width, 3, stride, activation=relu), *conv_norm(width, width, 3)])


def resnet50():
    return resnet((3, 4, 6, 3), 4, lambda channels, width, stride, relu: [
        *conv_norm(channels, width, 1, activation=relu), *conv_norm(width, width, 3, stride, activation=relu), *conv_norm(width, 4 * width, 1)])


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


VOCABULARY, TOKENS = 8192, 128


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        def split(y):
            return y.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

        y = functional.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)),
                                                    is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A transformer's layer; the norms stand before (GPT, ViT) or behind (BERT) attention and feed-forward."""

    def __init__(self, width, heads, causal=False, norm_first=True):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class Positions(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(1, tokens, width))

    def forward(self, x):
        return x + self.table


class Patches(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.projection = nn.Conv2d(3, width, size, size)

    def forward(self, x):
        return self.projection(x).flatten(2).transpose(1, 2)


class Pick(nn.Module):
    """`pick` of the layers' output: one token, or the mean of all."""

    def __init__(self, pick):
        super().__init__()
        self.pick = pick

    def forward(self, x):
        return self.pick(x)


def bert(width, layers, heads, vocabulary=VOCABULARY, tokens=TOKENS):
    return nn.Sequential(nn.Embedding(vocabulary, width), Positions(tokens, width), nn.LayerNorm(width),
                         *[Block(width, heads, norm_first=False) for _ in range(layers)], Pick(lambda x: x[:, 0]),
                         nn.Linear(width, 10))


def vit(width, layers, heads):
    return nn.Sequential(Patches(width, 16), Positions(196, width), *[Block(width, heads) for _ in range(layers)],
                         nn.LayerNorm(width), Pick(lambda x: x.mean(1)), nn.Linear(width, 1000))


def gpt(width, layers, heads, vocabulary=VOCABULARY, tokens=TOKENS):
    return nn.Sequential(nn.Embedding(vocabulary, width), Positions(tokens, width),
                         *[Block(width, heads, causal=True) for _ in range(layers)], nn.LayerNorm(width),
                         nn.Linear(width, vocabulary, bias=False))


def lstm():
    width = 256
    return nn.Sequential(nn.Embedding(VOCABULARY, width), nn.LSTM(width, width, batch_first=True),
                         Pick(lambda x: x[0][:, -1]), nn.Linear(width, 10))


def gru():
    width = 256
    return nn.Sequential(nn.Embedding(VOCABULARY, width), nn.GRU(width, width, batch_first=True),
                         Pick(lambda x: x[0][:, -1]), nn.Linear(width, 10))


class Network:
    """How a network is made, a sample's input (an image's shape, or a number of tokens) and its classes, of the sample or of
    each token."""

    def __init__(self, make, sample, classes, per_token=False):
        self.make, self.sample, self.classes, self.per_token = make, sample, classes, per_token

    def inputs(self, batch):
        if isinstance(self.sample, int):
            return torch.randint(0, VOCABULARY, (batch, self.sample))
        return torch.randn(batch, *self.sample)

    def labels(self, batch):
        return torch.randint(0, self.classes, (batch, self.sample) if self.per_token else (batch,))


MODELS = {
    "mlp": Network(mlp, (1, 28, 28), 10),
    "lenet": Network(lenet, (1, 28, 28), 10),
    "mini_googlenet": Network(mini_googlenet, (3, 32, 32), 10),
    "resnet18": Network(resnet18, (3, 224, 224), 1000),
    "resnet50": Network(resnet50, (3, 224, 224), 1000),
    "mobilenetv2": Network(mobilenetv2, (3, 224, 224), 1000),
    "xception": Network(xception, (3, 224, 224), 1000),
    "bert_mini": Network(lambda: bert(256, 4, 4), TOKENS, 10),
    "vit_tiny": Network(lambda: vit(192, 12, 3), (3, 224, 224), 1000),
    "gpt_mini": Network(lambda: gpt(256, 4, 4), TOKENS, VOCABULARY, per_token=True),
    "lstm": Network(lstm, TOKENS, 10),
    "gru": Network(gru, TOKENS, 10),
    # For plans (bench/rooflines.py): too large to be timed on a CPU.
    "bert_base": Network(lambda: bert(768, 12, 12, 30522, 512), 512, 10),
    **{f"bert_large_{tokens}": Network(lambda tokens=tokens: bert(1024, 24, 16, 30522, tokens), tokens, 10) for tokens in (128, 384, 512)},
    "vit_base": Network(lambda: vit(768, 12, 12), (3, 224, 224), 1000),
    "gpt2_small": Network(lambda: gpt(768, 12, 12, 50257, 1024), 1024, 50257, per_token=True),
}
