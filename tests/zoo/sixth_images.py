"""Small models of images and videos of a sixth sample, chosen before anything of it was exported."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values, image
from small_tables import Two, layers

CLASSES = Values((), below=10)


def conv(a, b, size=3, stride=1, **options):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, padding=options.pop("padding", size // 2), bias=False, **options), nn.BatchNorm2d(b), nn.ReLU())


class DistributionBoxes(nn.Module):
    """YOLOv8's head: apart for classes and boxes, whose sides are means of distributions over eight distances."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.SiLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.SiLU())
        self.classes, self.boxes = (nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, k, 1)) for k in (3, 32))
        self.register_buffer("distances", torch.arange(8.0))

    def forward(self, x):
        y = self.body(x)
        n, _, h, w = y.shape
        sides = self.boxes(y).view(n, 4, 8, h * w).softmax(2).transpose(2, 3) @ self.distances
        rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        centres = torch.stack([columns, rows]).flatten(1)
        corners = torch.cat([centres - sides[:, :2], centres + sides[:, 2:]], 1) * 4 / 16
        return torch.cat([corners, self.classes(y).flatten(2).sigmoid()], 1).transpose(1, 2)


class TwoPaths(nn.Module):
    """BiSeNet: a path of detail and one of context, each refined by the other's mean."""

    def __init__(self):
        super().__init__()
        self.detail = nn.Sequential(conv(3, 8, stride=2), conv(8, 16, stride=2))
        self.context = nn.Sequential(conv(3, 8, stride=4), conv(8, 16, stride=2), conv(16, 16, stride=2))
        self.refine, self.joined = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.Sigmoid()), conv(32, 24, 1)
        self.attend, self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 24, 1), nn.ReLU(), nn.Conv2d(24, 24, 1), nn.Sigmoid()), nn.Conv2d(24, 5, 1)

    def forward(self, x):
        detail, context = self.detail(x), self.context(x)
        context = context * self.refine(context) + context.mean((2, 3), keepdim=True)
        y = self.joined(torch.cat([detail, F.interpolate(context, size=detail.shape[2:], mode="bilinear", align_corners=False)], 1))
        return F.interpolate(self.head(y + y * self.attend(y)), scale_factor=4, mode="bilinear", align_corners=True)


class Nested(nn.Module):
    """U2-Net's block: a small U within a residual, its deepest part dilated."""

    def __init__(self, a, b, depth):
        super().__init__()
        self.enter, self.deep = conv(a, b), conv(8, 8, dilation=2, padding=2)
        self.down = nn.ModuleList([conv(b if i == 0 else 8, 8) for i in range(depth)])
        self.up = nn.ModuleList([conv(16, 8 if i else b) for i in range(depth)])

    def forward(self, x):
        x = y = self.enter(x)
        kept = []
        for i, layer in enumerate(self.down):
            y = layer(F.max_pool2d(y, 2, ceil_mode=True) if i else y)
            kept.append(y)
        y = self.deep(y)
        for i in reversed(range(len(self.up))):
            y = self.up[i](torch.cat([F.interpolate(y, size=kept[i].shape[2:], mode="bilinear"), kept[i]], 1))
        return x + y


def nested_u(m, x):
    a = m.first(x)
    b = m.second(F.max_pool2d(a, 2))
    y = m.last(torch.cat([a, F.interpolate(b, scale_factor=2, mode="bilinear")], 1))
    sides = [m.sides[0](y), F.interpolate(m.sides[1](b), scale_factor=2, mode="bilinear")]
    return m.fused(torch.cat(sides, 1))


def rendered_points(m, x, places):
    """PointRend: masks at places of each image, from fine features and coarse classes read off between pixels."""
    fine = F.relu(m.fine(x))
    coarse = m.coarse(F.avg_pool2d(fine, 4))
    grid = (2 * places - 1).unsqueeze(1)
    read = [F.grid_sample(y, grid, mode="bilinear", align_corners=False).squeeze(2) for y in (fine, coarse)]
    return m.point(torch.cat(read, 1)).transpose(1, 2)


def dynamic_masks(m, x):
    """CondInst: weights of two small layers, made for each image, over its features and where they are."""
    y = F.relu(m.body(x))
    n, c, h, w = y.shape
    along = torch.linspace(-1, 1, 8)
    place = torch.stack(torch.meshgrid(along, along, indexing="ij")).expand(n, -1, -1, -1)
    weights = m.controller(y.mean((2, 3)))
    first, second, bias = weights.split([8 * (c + 2), 8, 9], 1)
    z = F.relu(torch.bmm(first.view(n, 8, c + 2), torch.cat([y, place], 1).flatten(2)) + bias[:, :8].unsqueeze(2))
    return (torch.bmm(second.view(n, 1, 8), z) + bias[:, 8:].unsqueeze(2)).view(n, h, w)


class SlowFast(nn.Module):
    """Few frames with many channels, many frames with few, the second told to the first."""

    def __init__(self):
        super().__init__()
        self.slow, self.fast = nn.ModuleList([self.conv(3, 16, 1), self.conv(24, 16, 1)]), nn.ModuleList([self.conv(3, 4, 5), self.conv(4, 4, 3)])
        self.tell, self.head = nn.Conv3d(4, 8, (5, 1, 1), (4, 1, 1), (2, 0, 0), bias=False), nn.Linear(20, 10)

    @staticmethod
    def conv(a, b, frames):
        return nn.Sequential(nn.Conv3d(a, b, (frames, 3, 3), (1, 2, 2), (frames // 2, 1, 1), bias=False), nn.BatchNorm3d(b), nn.ReLU())

    def forward(self, x):
        slow, fast = self.slow[0](x[:, :, ::4]), self.fast[0](x)
        slow, fast = self.slow[1](torch.cat([slow, self.tell(fast)], 1)), self.fast[1](fast)
        return self.head(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1))


class SpatioTemporal(nn.Module):
    """PredRNN: a memory of time in each layer, and one that goes through all layers."""

    def __init__(self):
        super().__init__()
        self.x, self.h, self.m = (nn.ModuleList(nn.Conv2d(a, k * 6, 3, padding=1) for a in sizes) for sizes, k in (((2, 6), 7), ((6, 6), 4), ((6, 6), 3)))
        self.o, self.last = (nn.ModuleList(nn.Conv2d(12, 6, k, padding=k // 2) for _ in range(2)) for k in (3, 1))
        self.frame = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        n = x.size(0)
        h, c, m = ([torch.zeros(n, 6, 8, 8) for _ in range(2)] for _ in range(3))
        m, said = m[0], []
        for t in range(5):
            y = x[:, t] if t < 3 else said[-1]
            for i in range(2):
                gx, gh, gm = self.x[i](y).chunk(7, 1), self.h[i](h[i]).chunk(4, 1), self.m[i](m).chunk(3, 1)
                c[i] = torch.sigmoid(gx[1] + gh[1] + 1) * c[i] + torch.sigmoid(gx[0] + gh[0]) * torch.tanh(gx[2] + gh[2])
                m = torch.sigmoid(gx[4] + gm[1] + 1) * m + torch.sigmoid(gx[3] + gm[0]) * torch.tanh(gx[5] + gm[2])
                both = torch.cat([c[i], m], 1)
                h[i] = torch.sigmoid(gx[6] + gh[3] + self.o[i](both)) * torch.tanh(self.last[i](both))
                y = h[i]
            said.append(self.frame(y))
        return torch.stack(said[2:], 1)


def thin_plate(m, x):
    """A picture straightened by control points that a network moves: the spline's matrix is inverted once."""
    moved = torch.tanh(m.look(x)).view(-1, 6, 2) * 0.3 + m.control
    weights = m.inverse @ F.pad(moved, (0, 0, 0, 3))
    grid = (m.basis @ weights).view(-1, 16, 16, 2)
    return m.read(F.grid_sample(x, grid, padding_mode="border", align_corners=True))


def make_thin_plate():
    control = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 3), torch.tensor([-1.0, 1.0]), indexing="ij"), -1).view(-1, 2)
    pixels = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij"), -1).view(-1, 2).flip(1)

    def kernel(a, b):
        r = ((a[:, None] - b[None]) ** 2).sum(-1)
        return r * torch.log(r + 1e-6)

    ends = torch.cat([torch.ones(6, 1), control], 1)
    whole = torch.cat([torch.cat([kernel(control, control), ends], 1), torch.cat([ends.t(), torch.zeros(3, 3)], 1)])
    look = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 12))
    read = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(192, 10))
    return Call(thin_plate, look=look, read=read, control=control, inverse=torch.linalg.inv(whole), basis=torch.cat([kernel(pixels, control), torch.ones(256, 1), pixels], 1))


class FourScans(nn.Module):
    """VMamba: a state space along rows and columns, there and back."""

    def __init__(self):
        super().__init__()
        self.patch, self.enter = nn.Conv2d(3, 12, 4, 4), nn.Linear(12, 24)
        self.near, self.norm = nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.LayerNorm(12)
        self.tell, self.step = nn.Parameter(torch.randn(4, 12, 2 + 2 * 3) * 0.3), nn.Parameter(torch.randn(4, 2, 12) * 0.3)
        self.a, self.d = nn.Parameter(torch.log(torch.arange(1.0, 4).repeat(4, 12, 1))), nn.Parameter(torch.ones(4, 12))
        self.out, self.head = nn.Linear(12, 12), nn.Linear(12, 10)

    def forward(self, x):
        y, gate = self.enter(self.patch(x).permute(0, 2, 3, 1)).chunk(2, -1)
        y = F.silu(self.near(y.permute(0, 3, 1, 2)))
        rows, columns = y.flatten(2), y.transpose(2, 3).flatten(2)
        u = torch.stack([rows, columns, rows.flip(2), columns.flip(2)], 1)
        step, b, c = torch.einsum("nkdl,kde->nkle", u, self.tell).split([2, 3, 3], -1)
        delta = F.softplus(step @ self.step)
        state, out = torch.zeros(x.size(0), 4, 12, 3), []
        for t in range(16):
            decay = torch.exp(-delta[:, :, t].unsqueeze(-1) * self.a.exp())
            state = decay * state + (delta[:, :, t] * u[..., t]).unsqueeze(-1) * b[:, :, t].unsqueeze(2)
            out.append((state * c[:, :, t].unsqueeze(2)).sum(-1))
        y = torch.stack(out, -1) + self.d.unsqueeze(-1) * u
        y = y[:, :2] + y[:, 2:].flip(3)
        y = y[:, 0] + y[:, 1].unflatten(2, (4, 4)).transpose(2, 3).flatten(2)
        y = self.out(self.norm(y.transpose(1, 2)) * F.silu(gate.flatten(1, 2)))
        return self.head(y.mean(1))


def row(name, make, inputs, labels=CLASSES, **options):
    return Row(name, "small", make, inputs, labels, **options)


ROWS = [
    row("distribution_boxes", DistributionBoxes, {"x": image(16)}, Values((16, 7))),
    row("two_paths", TwoPaths, {"x": image(32)}, Values((32, 32), below=5), class_axis=1),
    row("nested_u", lambda: Call(nested_u, first=Nested(3, 12, 3), second=Nested(12, 12, 2), last=conv(24, 12), sides=nn.ModuleList(nn.Conv2d(12, 2, 3, padding=1) for _ in range(2)),
                                 fused=nn.Conv2d(4, 2, 1)), {"x": image(18)}, Values((18, 18), below=2), class_axis=1),
    row("rendered_points", lambda: Two(rendered_points, fine=nn.Conv2d(3, 12, 3, padding=1), coarse=nn.Conv2d(12, 4, 1), point=nn.Sequential(nn.Conv1d(16, 16, 1), nn.ReLU(), nn.Conv1d(16, 4, 1))),
        {"x": image(16), "places": Uniform((9, 2))}, Values((9,), below=4)),
    row("dynamic_masks", lambda: Call(dynamic_masks, body=nn.Conv2d(3, 8, 3, 2, 1), controller=layers(8, 24, 97)), {"x": image(16)}, Values((8, 8))),
    row("slow_fast", SlowFast, {"x": Values((3, 8, 16, 16))}),
    row("spatio_temporal_lstm", SpatioTemporal, {"x": Values((3, 2, 8, 8))}, Values((3, 2, 8, 8))),
    row("thin_plate_spline", make_thin_plate, {"x": image(16)}),
    row("four_scans", FourScans, {"x": image(16)}),
]
