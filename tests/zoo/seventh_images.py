"""Small models over images of a seventh sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import CLASSES, Call, Uniform, Values, image
from seventh_tables import p, row, several

IMAGE, MASK = {"x": image(32)}, Values((32, 32), below=3)


def conv(a, b, k=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b), act())


def fractal(m, x):
    """FractalNet: paths of one, two and four convolutions whose mean is taken where they join."""
    x = m.enter(x)
    shallow, middle, deep = m.shallow(x), m.middle[0](x), m.deep[1](m.deep[0](x))
    y = (middle + deep) / 2
    middle, deep = m.middle[1](y), m.deep[3](m.deep[2](y))
    return m.head(((shallow + middle + deep) / 3).mean((2, 3)))


def shuffled_groups(m, x):
    """ShuffleNet of the first version: grouped 1x1 convolutions with a shuffle of channels between."""
    x = m.enter(x)
    for first, middle, last in zip(m.first, m.middle, m.last):
        y = first(x).unflatten(1, (4, -1)).transpose(1, 2).flatten(1, 2)
        x = F.relu(x + last(middle(y)))
    return m.head(x.mean((2, 3)))


def early_exits(m, x):
    """Two classifiers on the way and one at the end; their scores are added."""
    a = m.first(x)
    b = m.second(a)
    c = m.third(b)
    return 0.3 * m.exits[0](a.mean((2, 3))) + 0.3 * m.exits[1](b.mean((2, 3))) + m.exits[2](c.mean((2, 3)))


def spatial_pyramid(m, x):
    """ESPNet: a narrow map seen by dilated convolutions whose results are added one after the other."""
    x = m.enter(x)
    for narrow, dilated, norm in zip(m.narrow, m.dilated, m.norms):
        y = narrow(x)
        parts = [d(y) for d in dilated]
        for i in range(2, 4):
            parts[i] = parts[i] + parts[i - 1]
        x = norm(torch.cat(parts, 1) + x)
    return F.interpolate(m.head(x), scale_factor=2, mode="bilinear", align_corners=False)


def two_branch_segmentation(m, x):
    """BiSeNet: details beside context with attention, fused by weights of channels."""
    detail = m.detail(x)
    context = m.context(x)
    context = context * torch.sigmoid(m.refine(context.mean((2, 3), keepdim=True)))
    context = F.interpolate(context, scale_factor=2, mode="nearest")
    y = m.fuse(torch.cat([detail, context], 1))
    y = y + y * m.weigh(y.mean((2, 3), keepdim=True))
    return F.interpolate(m.head(y), scale_factor=4, mode="bilinear", align_corners=False)


def weighted_pyramid(m, x):
    """BiFPN: maps of three sizes, fused both ways with learned positive weights that are normalized."""
    a = m.stem(x)
    b = m.down[0](a)
    c = m.down[1](b)

    def fuse(weights, *maps):
        w = F.relu(weights)
        w = w / (w.sum() + 1e-4)
        return sum(w[i] * y for i, y in enumerate(maps))
    up = [m.convs[0](fuse(m.weights[0], b, F.interpolate(c, scale_factor=2)))]
    up.append(m.convs[1](fuse(m.weights[1], a, F.interpolate(up[0], scale_factor=2))))
    down = m.convs[2](fuse(m.weights[2][:3], b, up[0], F.max_pool2d(up[1], 2)))
    last = m.convs[3](fuse(m.weights[3], c, F.max_pool2d(down, 2)))
    return m.head(torch.cat([y.mean((2, 3)) for y in (up[1], down, last)], 1))


def denoiser(m, x):
    """DnCNN: the noise is foretold and taken away."""
    return x - m.body(x)


def simple_gates(m, x):
    """NAFNet: products of halves in the place of activations, and scales that begin at nothing."""
    y = m.enter(x)
    for norm, first, depth, squeeze, last, scale in zip(m.norms, m.first, m.depth, m.squeeze, m.last, m.scales):
        z = norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        a, b = depth(first(z)).chunk(2, 1)
        z = a * b
        y = y + scale * last(z * squeeze(z.mean((2, 3), keepdim=True)))
    return x + m.leave(y)


def channel_attention_restorer(m, x):
    """Restormer: attention among channels with a learned temperature."""
    y = m.enter(x)
    for qkv, heat, out in zip(m.qkv, m.heat, m.out):
        q, k, v = qkv(y).flatten(2).unflatten(1, (3, 2, -1)).unbind(1)
        share = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * heat).softmax(-1)
        y = y + out((share @ v).flatten(1, 2).unflatten(2, (32, 32)))
    return x + m.leave(y)


def side_outputs(m, x):
    """HED: edges from maps of three sizes, each brought to full size, and a learned mean of them."""
    said = []
    for i, (block, side) in enumerate(zip(m.blocks, m.sides)):
        x = block(x if i == 0 else F.max_pool2d(x, 2))
        y = side(x)
        said.append(y if i == 0 else F.interpolate(y, scale_factor=2 ** i, mode="bilinear", align_corners=False))
    return torch.sigmoid(m.fuse(torch.cat(said, 1)))


def soft_argmax(m, x):
    """Integral pose: where the mean of a softmax over places lies."""
    share = m.body(x).flatten(2).softmax(-1).unflatten(2, (16, 16))
    along = torch.linspace(-1, 1, 16)
    return torch.stack([(share.sum(2) * along).sum(2), (share.sum(3) * along).sum(2)], -1)


def axial_shift(m, x):
    """AS-MLP: groups of channels moved by one place along rows and columns, between layers."""
    y = m.enter(x)
    for norm, first, rows, columns, last in zip(m.norms, m.first, m.rows, m.columns, m.last):
        z = F.gelu(first(norm(y)))
        moved = []
        for axis, layer in ((2, rows), (3, columns)):
            a, b, c = z.chunk(3, 1)
            moved.append(F.gelu(layer(torch.cat([a.roll(1, axis), b, c.roll(-1, axis)], 1))))
        y = y + last(moved[0] + moved[1])
    return m.head(y.mean((2, 3)))


def permutator(m, x):
    """ViP: layers along height, width and channels, weighed against each other."""
    y = m.enter(x).permute(0, 2, 3, 1)
    for norm, high, wide, deep, weigh in zip(m.norms, m.high, m.wide, m.deep, m.weigh):
        z = norm(y)
        n = z.size(0)
        along = z.view(n, 8, 8, 3, 4)
        h = high(along.permute(0, 3, 2, 1, 4).flatten(3)).unflatten(3, (8, 4)).permute(0, 3, 2, 1, 4).flatten(3)
        w = wide(along.permute(0, 1, 3, 2, 4).flatten(3)).unflatten(3, (8, 4)).permute(0, 1, 3, 2, 4).flatten(3)
        c = deep(z)
        share = weigh((h + w + c).mean((1, 2))).unflatten(1, (12, 3)).softmax(2).permute(2, 0, 1)[:, :, None, None]
        y = y + share[0] * h + share[1] * w + share[2] * c
    return m.head(y.mean((1, 2)))


ROWS = [
    row("fractal", lambda: Call(fractal, enter=conv(3, 8), shallow=conv(8, 8), middle=several(2, lambda: conv(8, 8)), deep=several(4, lambda: conv(8, 8)), head=nn.Linear(8, 10)), IMAGE, CLASSES),
    row("shuffled_groups", lambda: Call(shuffled_groups, enter=conv(3, 16, stride=2), first=several(2, lambda: conv(16, 16, 1, groups=4)),
                                        middle=several(2, lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16)), last=several(2, lambda: nn.Conv2d(16, 16, 1, groups=4)), head=nn.Linear(16, 10)),
        IMAGE, CLASSES),
    row("early_exits", lambda: Call(early_exits, first=conv(3, 8, stride=2), second=conv(8, 12, stride=2), third=conv(12, 16, stride=2),
                                    exits=nn.ModuleList(nn.Linear(c, 10) for c in (8, 12, 16))), IMAGE, CLASSES),
    row("spatial_pyramid", lambda: Call(spatial_pyramid, enter=conv(3, 16, stride=2), narrow=several(2, lambda: nn.Conv2d(16, 4, 1)),
                                        dilated=several(2, lambda: nn.ModuleList(nn.Conv2d(4, 4, 3, padding=2 ** i, dilation=2 ** i) for i in range(4))),
                                        norms=several(2, lambda: nn.Sequential(nn.BatchNorm2d(16), nn.PReLU(16))), head=nn.Conv2d(16, 3, 1)), IMAGE, MASK, class_axis=1),
    row("two_branch_segmentation", lambda: Call(two_branch_segmentation, detail=nn.Sequential(conv(3, 8, stride=2), conv(8, 12, stride=2)),
                                                context=nn.Sequential(conv(3, 8, stride=4), conv(8, 12, stride=2)), refine=nn.Conv2d(12, 12, 1), fuse=conv(24, 12, 1),
                                                weigh=nn.Sequential(nn.Conv2d(12, 4, 1), nn.ReLU(), nn.Conv2d(4, 12, 1), nn.Sigmoid()), head=nn.Conv2d(12, 3, 1)), IMAGE, MASK, class_axis=1),
    row("weighted_pyramid", lambda: Call(weighted_pyramid, stem=conv(3, 8, stride=2), down=several(2, lambda: conv(8, 8, stride=2)),
                                         convs=several(4, lambda: conv(8, 8, groups=8, act=nn.SiLU)), weights=nn.ParameterList(nn.Parameter(torch.rand(3 if i == 2 else 2) + 0.5) for i in range(4)),
                                         head=nn.Linear(24, 10)), IMAGE, CLASSES),
    row("denoiser", lambda: Call(denoiser, body=nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), conv(12, 12), conv(12, 12), nn.Conv2d(12, 3, 3, padding=1))), IMAGE, Values((3, 32, 32))),
    row("simple_gates", lambda: Call(simple_gates, enter=nn.Conv2d(3, 8, 3, padding=1), norms=several(2, lambda: nn.LayerNorm(8)), first=several(2, lambda: nn.Conv2d(8, 16, 1)),
                                     depth=several(2, lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16)), squeeze=several(2, lambda: nn.Conv2d(8, 8, 1)),
                                     last=several(2, lambda: nn.Conv2d(8, 8, 1)), scales=nn.ParameterList(p(1, 8, 1, 1) for _ in range(2)), leave=nn.Conv2d(8, 3, 3, padding=1)),
        IMAGE, Values((3, 32, 32))),
    row("channel_attention_restorer", lambda: Call(channel_attention_restorer, enter=nn.Conv2d(3, 8, 3, padding=1), qkv=several(2, lambda: nn.Sequential(
        nn.Conv2d(8, 24, 1), nn.Conv2d(24, 24, 3, padding=1, groups=24))), heat=nn.ParameterList(nn.Parameter(torch.ones(2, 1, 1)) for _ in range(2)),
        out=several(2, lambda: nn.Conv2d(8, 8, 1)), leave=nn.Conv2d(8, 3, 3, padding=1)), IMAGE, Values((3, 32, 32))),
    row("side_outputs", lambda: Call(side_outputs, blocks=nn.ModuleList(conv(a, b) for a, b in ((3, 8), (8, 12), (12, 16))), sides=nn.ModuleList(nn.Conv2d(c, 1, 1) for c in (8, 12, 16)),
                                     fuse=nn.Conv2d(3, 1, 1)), IMAGE, Uniform((1, 32, 32))),
    row("soft_argmax", lambda: Call(soft_argmax, body=nn.Sequential(conv(3, 8, stride=2), conv(8, 8), nn.Conv2d(8, 5, 1))), IMAGE, Values((5, 2))),
    row("axial_shift", lambda: Call(axial_shift, enter=nn.Conv2d(3, 12, 4, 4), norms=several(2, lambda: nn.GroupNorm(1, 12)), head=nn.Linear(12, 10),
                                    **{k: several(2, lambda: nn.Conv2d(12, 12, 1)) for k in ("first", "rows", "columns", "last")}), IMAGE, CLASSES),
    row("permutator", lambda: Call(permutator, enter=nn.Conv2d(3, 12, 4, 4), norms=several(2, lambda: nn.LayerNorm(12)), high=several(2, lambda: nn.Linear(32, 32)),
                                   wide=several(2, lambda: nn.Linear(32, 32)), deep=several(2, lambda: nn.Linear(12, 12)), weigh=several(2, lambda: nn.Linear(12, 36)),
                                   head=nn.Linear(12, 10)), IMAGE, CLASSES),
]
