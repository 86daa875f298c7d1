"""Small models over sound and time series of a third sample, chosen before anything of it was run."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from row import Call, Values
from small_tables import Two, each
from third_images import p
from third_sequences import SAME_SERIES, SERIES, STEPS, WIDTH, both_ways, linears, row

SOUND = {"x": Values((256,))}


class Separable(nn.Module):
    def __init__(self, a, b, size, dilation=1):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv1d(a, a, size, padding=size // 2 * dilation, dilation=dilation, groups=a, bias=False), nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b))
        self.skip = nn.Sequential(nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b))

    def forward(self, x):
        return F.relu(self.parts(x) + self.skip(x))


def convolution_bank(m, x):
    """Tacotron's CBHG: filters of several sizes, highways, a GRU both ways."""
    y = x.transpose(1, 2)
    y = torch.cat([F.relu(c(y))[..., :STEPS] for c in m.bank], 1)
    y = m.project(F.max_pool1d(y, 2, 1, 1)[..., :STEPS]).transpose(1, 2) + x
    for a, b in zip(m.gates, m.layers):
        t = torch.sigmoid(a(y))
        y = t * F.relu(b(y)) + (1 - t) * y
    return m.out(m.rnn(y)[0])


def vocoder(m, x):
    """HiFi-GAN's generator: receptive fields of two sizes, averaged."""
    y = m.enter(x.transpose(1, 2))
    for up, small, large in zip(m.ups, m.small, m.large):
        y = up(F.leaky_relu(y, 0.1))
        y = (y + small(F.leaky_relu(y, 0.1)) + y + large(F.leaky_relu(y, 0.1))) / 2
    return torch.tanh(m.out(F.leaky_relu(y))).squeeze(1)


def spectrogram(m, x):
    """torch.stft in front of a convolutional net."""
    s = torch.stft(x, 32, 16, 32, window=m.window, center=True, pad_mode="reflect", return_complex=True)
    y = torch.log(torch.matmul(m.mel, s.abs().pow(2)) + 1e-6)
    return m.net(y.unsqueeze(1))


def own_spectrogram(m, x):
    """A Fourier transform as a convolution with fixed filters."""
    s = F.conv1d(x.unsqueeze(1), m.basis, stride=16)
    power = s[:, :17] ** 2 + s[:, 17:] ** 2
    return m.head(F.relu(m.conv(torch.log1p(power))).mean(-1))


def make_own_spectrogram():
    angle = 2 * math.pi * torch.arange(17)[:, None] * torch.arange(32)[None] / 32
    basis = torch.cat([torch.cos(angle), torch.sin(angle)], 0) * torch.hann_window(32)
    return Call(own_spectrogram, basis=basis.unsqueeze(1), conv=nn.Conv1d(17, 8, 3), head=nn.Linear(8, 4))


def phased(m, x, times):
    """A phased LSTM: gates that are open now and then."""
    h = c = torch.zeros_like(x[:, 0])
    for i in range(STEPS):
        phase = torch.fmod(times[:, i:i + 1].abs() - m.shift, m.period.abs() + 0.5) / (m.period.abs() + 0.5)
        open_ = torch.where(phase < 0.1, 20 * phase, torch.where(phase < 0.2, 2 - 10 * phase, 0.001 * phase))
        hh, cc = m.cell(x[:, i], (h, c))
        h, c = open_ * hh + (1 - open_) * h, open_ * cc + (1 - open_) * c
    return m.head(h)


def missing_values(m, x, present):
    """GRU-D: what is missing decays to the mean."""
    seen = present.unsqueeze(-1).float()
    h, last, since = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), torch.zeros_like(seen[:, 0])
    for i in range(6):
        decay = torch.exp(-F.relu(m.decay(since)))
        value = seen[:, i] * x[:, i] + (1 - seen[:, i]) * (decay * last + (1 - decay) * m.mean)
        last = torch.where(seen[:, i] > 0, x[:, i], last)
        h = m.cell(torch.cat([value, seen[:, i].expand(-1, WIDTH)], 1), h * torch.exp(-F.relu(m.fade(since))))
        since = (since + 1) * (1 - seen[:, i])
    return m.head(h)


def controlled(m, x):
    """A neural differential equation driven by the series, by Runge and Kutta's steps."""
    z = m.first(x[:, 0])
    for i in range(4):
        d = x[:, i + 1] - x[:, i]
        f = lambda s: (torch.tanh(m.field(s)).view(-1, 8, WIDTH) @ d.unsqueeze(2)).squeeze(2)
        a = f(z)
        b = f(z + a / 2)
        c = f(z + b / 2)
        z = z + (a + 2 * b + 2 * c + f(z + c)) / 6
    return m.head(z)


def frequency_net(m, x):
    """FreTS: an MLP over the frequencies of a series, in complex arithmetic by hand."""
    f = torch.fft.rfft(x, dim=1, norm="ortho")
    real = F.relu(torch.einsum("ntd,de->nte", f.real, m.r) - torch.einsum("ntd,de->nte", f.imag, m.i) + m.rb)
    imaginary = F.relu(torch.einsum("ntd,de->nte", f.imag, m.r) + torch.einsum("ntd,de->nte", f.real, m.i) + m.ib)
    y = torch.fft.irfft(torch.complex(F.softshrink(real, 0.01), F.softshrink(imaginary, 0.01)), n=STEPS, dim=1, norm="ortho")
    return m.out((y + x).transpose(1, 2)).transpose(1, 2)


def diagonal_states(m, x):
    """S4D: a kernel of complex exponentials, convolved by Fourier transforms."""
    step = torch.exp(m.step)
    rate = -torch.exp(m.real) + 1j * m.imaginary
    powers = torch.exp((rate * step[:, None]).unsqueeze(-1) * torch.arange(STEPS))
    scale = torch.view_as_complex(m.c) * (torch.exp(rate * step[:, None]) - 1.0) / rate
    kernel = 2 * torch.einsum("hn,hnl->hl", scale, powers).real
    u = x.transpose(1, 2)
    y = torch.fft.irfft(torch.fft.rfft(u, n=2 * STEPS) * torch.fft.rfft(kernel, n=2 * STEPS), n=2 * STEPS)[..., :STEPS]
    return m.out(F.gelu(y + u * m.d.unsqueeze(-1)).transpose(1, 2))


def receptive(size):
    return nn.Sequential(nn.Conv1d(8, 8, size, padding=size // 2), nn.LeakyReLU(0.1), nn.Conv1d(8, 8, size, padding=size // 2 * 3, dilation=3))


def up():
    return nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(8, 8, 4, 2, 1))


ROWS = [
    row("separable_speech", lambda: nn.Sequential(Separable(WIDTH, 16, 5), Separable(16, 24, 3, 2), nn.Conv1d(24, 7, 1)), {"x": Values((WIDTH, 20))}, Values((20,), below=7), class_axis=1),
    row("convolution_bank", lambda: Call(convolution_bank, bank=nn.ModuleList(nn.Conv1d(WIDTH, 8, k, padding=k // 2) for k in (1, 2, 3, 4)), project=nn.Conv1d(32, WIDTH, 3, padding=1),
                                         gates=each(lambda: nn.Linear(WIDTH, WIDTH)), layers=each(lambda: nn.Linear(WIDTH, WIDTH)), rnn=both_ways(kind=nn.GRU), out=nn.Linear(WIDTH, WIDTH)),
        None, SAME_SERIES),
    row("vocoder", lambda: Call(vocoder, enter=nn.Conv1d(WIDTH, 8, 7, padding=3), ups=each(up), small=each(lambda: receptive(3)), large=each(lambda: receptive(7)),
                                out=nn.Conv1d(8, 1, 7, padding=3)), None, Values((4 * STEPS,))),
    row("spectrogram", lambda: Call(spectrogram, window=torch.hann_window(32), mel=torch.rand(8, 17),
                                    net=nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))), SOUND),
    row("own_spectrogram", make_own_spectrogram, SOUND),
    row("phased_lstm", lambda: Two(phased, cell=nn.LSTMCell(WIDTH, WIDTH), shift=p(WIDTH), period=p(WIDTH), head=nn.Linear(WIDTH, 4)), {**SERIES, "times": Values((STEPS,))}),
    row("missing_values", lambda: Two(missing_values, decay=nn.Linear(1, WIDTH), fade=nn.Linear(1, WIDTH), mean=torch.randn(WIDTH) * 0.1, cell=nn.GRUCell(2 * WIDTH, WIDTH),
                                      head=nn.Linear(WIDTH, 4)), {**SERIES, "present": Values((STEPS,), below=2)}),
    row("controlled_equation", lambda: Call(controlled, **linears(first=(WIDTH, 8), field=(8, 8 * WIDTH), head=(8, 4)))),
    row("frequency_net", lambda: Call(frequency_net, r=p(WIDTH, WIDTH), i=p(WIDTH, WIDTH), rb=p(WIDTH), ib=p(WIDTH), out=nn.Linear(STEPS, 4)), None, Values((4, WIDTH))),
    row("diagonal_states", lambda: Call(diagonal_states, step=p(WIDTH), real=p(WIDTH, 4), imaginary=p(WIDTH, 4), c=p(WIDTH, 4, 2), d=p(WIDTH), out=nn.Linear(WIDTH, WIDTH)), None, SAME_SERIES),
]
