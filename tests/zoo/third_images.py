"""Small models over images, video and volumes of a third sample, chosen before anything of it was run."""
import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Row, Uniform, Values, image
from small_tables import Two, each, layers

FEW = Values((), below=4)
PIXELS = Values((16, 16), below=4)
SMALL = {"x": image(16)}
PAIR = {"left": image(16), "right": image(16)}


def p(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


def conv(a, b, stride=1, size=3, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b), act())


class TimeBlock(nn.Module):
    """A residual block of a diffusion model."""

    def __init__(self, a, b, time):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(4, b), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(b, b, 3, padding=1))
        self.time = nn.Linear(time, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.first(x) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.second(h)


class DiffusionUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
        self.a, self.b, self.c = TimeBlock(8, 8, 16), TimeBlock(8, 16, 16), TimeBlock(24, 8, 16)
        self.down, self.norm = nn.Conv2d(8, 8, 3, 2, 1), nn.GroupNorm(4, 16)
        self.qkv, self.proj = nn.Conv2d(16, 48, 1), nn.Conv2d(16, 16, 1)
        self.out = nn.Sequential(nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, x, step):
        rate = torch.exp(-torch.arange(4, dtype=torch.float32) * (9.21 / 4))
        angle = step[:, None].float() * rate[None, :]
        t = self.time(torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1))
        h = self.a(self.enter(x), t)
        low = self.b(self.down(h), t)
        b, c, height, width = low.shape
        q, k, v = self.qkv(self.norm(low)).reshape(b, 3, c, height * width).unbind(1)
        share = torch.einsum("bci,bcj->bij", q, k).mul(c ** -0.5).softmax(-1)
        low = low + self.proj(torch.einsum("bij,bcj->bci", share, v).reshape(b, c, height, width))
        return self.out(self.c(torch.cat([h, F.interpolate(low, scale_factor=2.0, mode="nearest")], 1), t))


def deep_supervision(m, x):
    """The mean of what three depths of a U-Net say."""
    a = m.a(x)
    b = m.b(F.max_pool2d(a, 2))
    c = m.c(F.max_pool2d(b, 2))
    outs = [F.interpolate(head(y), size=x.shape[-2:], mode="bilinear", align_corners=False) for head, y in zip(m.heads, (a, b, c))]
    return torch.stack(outs).mean(0)


def anchored(m, x):
    """RetinaNet's boxes: deltas of anchors, decoded; scores beside them."""
    y = m.body(x)
    n = y.size(0)
    deltas = m.boxes(y).permute(0, 2, 3, 1).contiguous().view(n, -1, 4)
    scores = m.scores(y).permute(0, 2, 3, 1).contiguous().view(n, -1, 3)
    size = m.anchors[:, 2:] - m.anchors[:, :2]
    middle = m.anchors[:, :2] + 0.5 * size
    xy = deltas[..., :2] * size + middle
    wh = torch.exp(deltas[..., 2:].clamp(max=4.0)) * size
    return torch.cat([xy - 0.5 * wh, xy + 0.5 * wh, scores.sigmoid()], dim=-1)


def make_anchored():
    ys, xs = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    centre = torch.stack([xs, ys], -1).view(-1, 1, 2).repeat(1, 2, 1) / 4
    half = torch.tensor([[0.13, 0.21], [0.31, 0.17]])
    return Call(anchored, body=nn.Sequential(conv(3, 8, 2), conv(8, 16, 2)), boxes=nn.Conv2d(16, 8, 3, padding=1), scores=nn.Conv2d(16, 6, 3, padding=1),
                anchors=torch.cat([centre - half, centre + half], -1).view(-1, 4))


def yolo_grid(m, x):
    """YOLOv3: the cells' places are made in forward."""
    y = m.head(m.body(x))
    n, _, h, w = y.shape
    y = y.view(n, 2, 7, h, w).permute(0, 1, 3, 4, 2)
    ys, xs = torch.meshgrid(torch.arange(h, device=x.device), torch.arange(w, device=x.device), indexing="ij")
    grid = torch.stack((xs, ys), 2).view(1, 1, h, w, 2).float()
    xy = (y[..., 0:2].sigmoid() * 2 - 0.5 + grid) / 4
    wh = (y[..., 2:4].sigmoid() * 2) ** 2 * m.sizes
    return torch.cat((xy, wh, y[..., 4:].sigmoid()), 4).reshape(n, -1, 7)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x * self.scale


def centred(m, x):
    """FCOS: distances to four sides and how central a place is, on two levels."""
    high = m.high(x)
    out = []
    for y, scale in zip((high, m.low(high)), m.scales):
        t = m.tower(y)
        out.append(torch.cat([m.classes(t), m.centre(t), torch.exp(scale(m.sides(t)))], 1).flatten(2))
    return torch.cat(out, 2).transpose(1, 2)


def channel_attention(m, x):
    """RCAN."""
    y = m.enter(x)
    z = y
    for a, b, squeeze in zip(m.a, m.b, m.squeeze):
        t = b(F.relu(a(z)))
        z = z + t * squeeze(F.adaptive_avg_pool2d(t, 1))
    return m.out(y + m.last(z)) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


def laplacian(m, x):
    """LapSRN: details are added to what was enlarged."""
    small, y = x, m.enter(x)
    for up, body, detail in zip(m.ups, m.bodies, m.details):
        y = body(F.leaky_relu(up(y), 0.2))
        small = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False) + detail(y)
    return small


def hourglass(m, x):
    """Places of joints as the mean of a heat map."""
    y = m.enter(x)
    low = m.inner(F.max_pool2d(y, 2))
    heat = m.heat(m.skip(y) + F.interpolate(low, scale_factor=2))
    n, k, h, w = heat.shape
    share = heat.view(n, k, -1).softmax(-1).view(n, k, h, w)
    xs, ys = torch.linspace(0, 1, w), torch.linspace(0, 1, h)
    return torch.stack([(share.sum(2) * xs).sum(-1), (share.sum(3) * ys).sum(-1)], -1)


def flow(m, left, right):
    """Costs of shifts, then one image warped onto the other."""
    a, b = m.body(left), m.body(right)
    padded = F.pad(b, (2, 2, 2, 2))
    h, w = a.shape[2], a.shape[3]
    cost = torch.cat([(a * padded[:, :, i:i + h, j:j + w]).mean(1, keepdim=True) for i in range(5) for j in range(5)], 1)
    move = m.move(torch.cat([F.leaky_relu(cost, 0.1), a], 1))
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs, ys], -1).unsqueeze(0) + 0.1 * torch.tanh(move).permute(0, 2, 3, 1)
    warped = F.grid_sample(b, grid, mode="bilinear", padding_mode="border", align_corners=True)
    return move + m.refine(torch.cat([a, warped, move], 1))


def stereo(m, left, right):
    """A volume of disparities, filtered in three dimensions; the mean disparity."""
    a, b = m.body(left), m.body(right)
    volume = []
    for d in range(4):
        volume.append(torch.cat([a, b], 1) if d == 0 else F.pad(torch.cat([a[..., d:], b[..., :-d]], 1), (d, 0, 0, 0)))
    share = F.softmax(-m.filters(torch.stack(volume, 2)).squeeze(1), dim=1)
    return torch.sum(share * torch.arange(4, dtype=share.dtype).view(1, 4, 1, 1), 1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x, bias=None):
        b, n, c = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        score = (q @ k.transpose(-2, -1)) * self.scale
        share = (score if bias is None else score + bias).softmax(dim=-1)
        return self.out((share @ v).transpose(1, 2).reshape(b, n, c))


class PatchTransformer(nn.Module):
    """A ViT as it is written by hand."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(48, 16)
        self.token, self.places = p(1, 1, 16), p(1, 17, 16)
        self.blocks = each(lambda: nn.ModuleList([Attention(16, 2), nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))]))
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 4))

    def forward(self, x):
        b, c, h, w = x.shape
        patches = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(b, (h // 4) * (w // 4), 16 * c)
        y = torch.cat((self.token.expand(b, -1, -1), self.enter(patches)), dim=1)
        y = y + self.places[:, :y.size(1)]
        for attend, net in self.blocks:
            y = attend(y) + y
            y = net(y) + y
        return self.head(y[:, 0])


class Windows(nn.Module):
    """Swin's shifted windows, with a mask that is made in forward."""

    def __init__(self):
        super().__init__()
        self.enter, self.attend = nn.Conv2d(3, 16, 2, 2), Attention(16, 2)
        self.net = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        y = self.enter(x).permute(0, 2, 3, 1)
        b, h, w, c = y.shape
        area = torch.zeros(1, h, w, 1)
        area[:, -2:], area[:, :, -2:] = area[:, -2:] + 1, area[:, :, -2:] + 2
        area = area.view(1, h // 4, 4, w // 4, 4).permute(0, 1, 3, 2, 4).reshape(-1, 16)
        mask = (area[:, None] - area[:, :, None] != 0).float() * -100.0
        moved = torch.roll(y, shifts=(-2, -2), dims=(1, 2)).view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        z = self.attend(moved, mask.repeat(b, 1, 1).unsqueeze(1))
        z = z.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        y = y + torch.roll(z, shifts=(2, 2), dims=(1, 2))
        return self.head((y + self.net(y)).mean((1, 2)))


def masked_autoencoder(m, x, noise):
    """A quarter of the patches is kept, by noise; the others are a token."""
    y = m.enter(x).flatten(2).transpose(1, 2) + m.places
    order = torch.argsort(noise, dim=1)
    back = torch.argsort(order, dim=1)
    kept = torch.gather(y, 1, order[:, :4].unsqueeze(-1).expand(-1, -1, 16))
    z = m.encoder(kept)
    full = torch.cat([z, m.token.repeat(x.shape[0], 12, 1)], dim=1)
    full = torch.gather(full, 1, back.unsqueeze(-1).expand(-1, -1, 16))
    return m.out(m.decoder(full + m.places))


def discrete_vae(m, x, noise):
    """Gumbel-softmax over a table of codes."""
    share = F.softmax((m.encode(x) - torch.log(-torch.log(noise * 0.98 + 0.01))) / 0.9, dim=1)
    return m.decode(torch.einsum("nkhw,kd->ndhw", share, m.codes.weight))


def spade(m, x, layout):
    """Normalized features, scaled and shifted by a map of classes."""
    s = F.one_hot(layout, 4).permute(0, 3, 1, 2).float()
    h = F.relu(m.shared(s))
    y = F.instance_norm(m.enter(x)) * (1 + m.scale(h)) + m.shift(h)
    return torch.tanh(m.out(F.leaky_relu(y, 0.2)))


def rendered(m, origin, direction):
    """NeRF: colours of rays, from front to back."""
    depth = torch.linspace(0.1, 2.0, 8)
    points = origin[:, None, :] + direction[:, None, :] * depth[None, :, None]
    features = torch.cat([f(2.0 ** i * points) for i in range(3) for f in (torch.sin, torch.cos)], -1)
    raw = m.net(features)
    alpha = 1 - torch.exp(-F.softplus(raw[..., 3]) * (1.9 / 7))
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    return ((alpha * through)[..., None] * torch.sigmoid(raw[..., :3])).sum(-2)


def bilinear_pooling(m, x):
    y = m.body(x).flatten(2)
    z = torch.bmm(y, y.transpose(1, 2)).div(y.size(2)).flatten(1)
    return m.head(F.normalize(torch.sign(z) * torch.sqrt(z.abs() + 1e-5)))


def two_streams(m, frames, motion):
    n, t = frames.shape[:2]
    a = m.look(frames.flatten(0, 1)).mean((2, 3)).reshape(n, t, -1).mean(1)
    b = m.move(motion.reshape(n, -1, 8, 8)).mean((2, 3))
    return (m.first(a) + m.second(b)) / 2


def content_aware(m, x):
    """CARAFE: each pixel's own kernel enlarges."""
    n, c, h, w = x.shape
    y = m.enter(x)
    kernel = F.softmax(F.pixel_shuffle(m.make(F.relu(m.small(y))), 2), 1)
    patches = F.unfold(y, 3, padding=1).view(n, 8 * 9, h, w)
    patches = F.interpolate(patches, scale_factor=2, mode="nearest").view(n, 8, 9, 2 * h, 2 * w)
    return m.head((patches * kernel.unsqueeze(1)).sum(2))


class Atrous(nn.Module):
    """DeepLabV3+ with its decoder."""

    def __init__(self):
        super().__init__()
        self.low, self.high = conv(3, 8), nn.Sequential(conv(8, 16, 2), conv(16, 16, 2))
        self.branches = nn.ModuleList([conv(16, 8, size=1), *(nn.Sequential(nn.Conv2d(16, 8, 3, padding=d, dilation=d, bias=False), nn.BatchNorm2d(8), nn.ReLU()) for d in (2, 4))])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.project, self.reduce, self.head = conv(32, 8, size=1), conv(8, 4, size=1), nn.Sequential(conv(12, 8), nn.Conv2d(8, 4, 1))

    def forward(self, x):
        low = self.low(x)
        high = self.high(low)
        outs = [b(high) for b in self.branches]
        outs.append(F.interpolate(self.pool(high), size=high.shape[-2:], mode="bilinear", align_corners=False))
        y = F.interpolate(self.project(torch.cat(outs, dim=1)), size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(torch.cat([y, self.reduce(low)], dim=1))


def matrix_capsules(m, x):
    """Poses as matrices, routed three times."""
    n = x.shape[0]
    pose = m.poses(m.body(x)).view(n, -1, 4, 4)
    votes = torch.einsum("nipq,icqr->nicpr", pose, m.views).flatten(3)
    logits = torch.zeros(n, votes.size(1), 4)
    for i in range(3):
        share = torch.softmax(logits, 2).unsqueeze(3)
        mean = (share * votes).sum(1, keepdim=True) / (share.sum(1, keepdim=True) + 1e-8)
        if i < 2:
            logits = logits - ((votes - mean) ** 2).sum(-1)
    return mean.squeeze(1).norm(dim=-1)


def offsets(m, x):
    """Deformable attention: each place looks at four others, which it names."""
    n, c, h, w = x.shape
    y = m.value(x)
    move, share = m.move(x).view(n, 4, 2, h, w), m.share(x).softmax(1)
    base = F.affine_grid(torch.eye(2, 3).unsqueeze(0).expand(n, -1, -1), [n, 1, h, w], align_corners=False)
    out = 0
    for i in range(4):
        grid = base + torch.tanh(move[:, i]).permute(0, 2, 3, 1) * 0.2
        out = out + share[:, i:i + 1] * F.grid_sample(y, grid, align_corners=False)
    return m.head(out.mean((2, 3)))


def dice(m, x, mask):
    """Its own loss: Dice and cross entropy of a binary mask."""
    score = m.head(m.body(x)).squeeze(1)
    share, truth = torch.sigmoid(score), mask.float()
    overlap = 2 * (share * truth).sum((1, 2)) + 1
    entropy = F.binary_cross_entropy_with_logits(score, truth, reduction="none").mean((1, 2))
    return entropy + 1 - overlap / (share.sum((1, 2)) + truth.sum((1, 2)) + 1)


def row(name, make, inputs=None, *labels, **options):
    return Row(name, "small", make, SMALL if inputs is None else inputs, *(labels or (FEW,)), **options)


def block():
    return nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, activation="gelu", norm_first=True)


def volume():
    return nn.Sequential(nn.Conv3d(16, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.Conv3d(8, 1, 3, padding=1))


ROWS = [
    row("diffusion_unet", DiffusionUNet, {"x": image(16), "step": Values((), below=50)}, Values((3, 16, 16))),
    row("deep_supervision", lambda: Call(deep_supervision, a=conv(3, 8), b=conv(8, 8), c=conv(8, 8), heads=nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in range(3))), None, PIXELS, class_axis=1),
    row("anchored_boxes", make_anchored, None, Values((32, 7))),
    row("yolo_grid", lambda: Call(yolo_grid, body=nn.Sequential(conv(3, 8, 2, act=nn.SiLU), conv(8, 16, 2, act=nn.SiLU)), head=nn.Conv2d(16, 14, 1),
                                  sizes=torch.tensor([[0.11, 0.24], [0.37, 0.18]]).view(1, 2, 1, 1, 2)), None, Values((32, 7))),
    row("centred_boxes", lambda: Call(centred, high=conv(3, 8, 2), low=conv(8, 8, 2), tower=nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU()), scales=each(Scale),
                                      classes=nn.Conv2d(8, 3, 3, padding=1), centre=nn.Conv2d(8, 1, 3, padding=1), sides=nn.Conv2d(8, 4, 3, padding=1)), None, Values((80, 8))),
    row("rcan", lambda: Call(channel_attention, enter=nn.Conv2d(3, 8, 3, padding=1), a=each(lambda: nn.Conv2d(8, 8, 3, padding=1)), b=each(lambda: nn.Conv2d(8, 8, 3, padding=1)),
                             squeeze=each(lambda: nn.Sequential(nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid())), last=nn.Conv2d(8, 8, 3, padding=1),
                             out=nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2))), {"x": image(8)}, Values((3, 16, 16))),
    row("laplacian_pyramid", lambda: Call(laplacian, enter=nn.Conv2d(3, 8, 3, padding=1), ups=each(lambda: nn.ConvTranspose2d(8, 8, 4, 2, 1)),
                                          bodies=each(lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.LeakyReLU(0.2))), details=each(lambda: nn.Conv2d(8, 3, 3, padding=1))),
        {"x": image(8)}, Values((3, 32, 32))),
    row("hourglass", lambda: Call(hourglass, enter=conv(3, 8), inner=conv(8, 8), skip=nn.Conv2d(8, 8, 1), heat=nn.Conv2d(8, 5, 1)), None, Values((5, 2))),
    row("optical_flow", lambda: Two(flow, body=conv(3, 8, 2), move=nn.Conv2d(33, 2, 3, padding=1), refine=nn.Conv2d(18, 2, 3, padding=1)), PAIR, Values((2, 8, 8))),
    row("stereo", lambda: Two(stereo, body=conv(3, 8, 2), filters=volume()), PAIR, Values((8, 8))),
    row("patch_transformer", PatchTransformer),
    row("shifted_windows", Windows),
    row("masked_autoencoder", lambda: Two(masked_autoencoder, enter=nn.Conv2d(3, 16, 4, 4), places=p(1, 16, 16), encoder=block(), decoder=block(), token=p(1, 1, 16), out=nn.Linear(16, 48)),
        {"x": image(16), "noise": Values((16,))}, Values((16, 48))),
    row("discrete_vae", lambda: Two(discrete_vae, encode=nn.Sequential(conv(3, 8, 2), nn.Conv2d(8, 10, 1)), codes=nn.Embedding(10, 6), decode=nn.ConvTranspose2d(6, 3, 4, 2, 1)),
        {"x": image(8), "noise": Uniform((10, 4, 4))}, Values((3, 8, 8))),
    row("spade", lambda: Two(spade, enter=nn.Conv2d(3, 8, 3, padding=1), shared=nn.Conv2d(4, 8, 3, padding=1), scale=nn.Conv2d(8, 8, 3, padding=1), shift=nn.Conv2d(8, 8, 3, padding=1),
                             out=nn.Conv2d(8, 3, 3, padding=1)), {"x": image(16), "layout": PIXELS}, Values((3, 16, 16))),
    row("rendered_rays", lambda: Two(rendered, net=layers(18, 32, 32, 4)), {"origin": Values((3,)), "direction": Values((3,))}, Values((3,))),
    row("bilinear_pooling", lambda: Call(bilinear_pooling, body=nn.Sequential(conv(3, 8, 2), conv(8, 8)), head=nn.Linear(64, 4))),
    row("two_streams", lambda: Two(two_streams, look=conv(3, 8), move=conv(6, 8), first=nn.Linear(8, 4), second=nn.Linear(8, 4)),
        {"frames": Values((4, 3, 8, 8)), "motion": Values((3, 2, 8, 8))}),
    row("content_aware_upsampling", lambda: Call(content_aware, enter=nn.Conv2d(3, 8, 1), small=nn.Conv2d(8, 4, 1), make=nn.Conv2d(4, 36, 3, padding=1), head=nn.Conv2d(8, 4, 1)), {"x": image(8)},
        PIXELS, class_axis=1),
    row("atrous_decoder", Atrous, None, PIXELS, class_axis=1),
    row("matrix_capsules", lambda: Call(matrix_capsules, body=conv(3, 8, 2), poses=nn.Conv2d(8, 16, 3, 2, 1), views=p(16, 4, 4, 4)), None),
    row("deformable_attention", lambda: Call(offsets, value=nn.Conv2d(3, 8, 1), move=nn.Conv2d(3, 8, 3, padding=1), share=nn.Conv2d(3, 4, 1), head=nn.Linear(8, 4)), {"x": image(8)}),
    row("dice_loss", lambda: Two(dice, body=conv(3, 8), head=nn.Conv2d(8, 1, 1)), {"x": image(16), "mask": Values((16, 16), below=2)}, None),
]
