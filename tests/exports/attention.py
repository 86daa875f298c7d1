"""Models over sequences: attention, language models, vision transformers."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from architecture import Architecture, Call, Values

STEPS, WIDTH, WORDS = 6, 16, 11
SEQUENCE = Values((STEPS, WIDTH))
TOKENS = Values((STEPS,), below=WORDS)
CLASSES = Values((), below=5)


def attention_batch_first():
    return Call(lambda m, x: m.head(m.attention(x, x, x, need_weights=False)[0].mean(1)),
                attention=nn.MultiheadAttention(WIDTH, 4, batch_first=True), head=nn.Linear(WIDTH, 5))


def attention_sequence_first():
    def function(m, x):
        s = x.transpose(0, 1)
        return m.head(m.attention(s, s, s, need_weights=False)[0].mean(0))
    return Call(function, attention=nn.MultiheadAttention(WIDTH, 4), head=nn.Linear(WIDTH, 5))


def encoder_layer(batch_first):
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=batch_first)

    def function(m, x):
        y = m.encoder(x) if batch_first else m.encoder(x.transpose(0, 1)).transpose(0, 1)
        return m.head(y[:, 0])
    return Call(function, encoder=layer, head=nn.Linear(WIDTH, 5))


class Attention(nn.Module):
    """Written out, as language models have it: causal by a mask, or whole."""

    def __init__(self, width, heads, causal, bias=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)
        if causal:
            self.register_buffer("mask", torch.tril(torch.ones(STEPS, STEPS)).view(1, 1, STEPS, STEPS))

    def forward(self, x, turn=lambda t: t):
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = turn(q) @ turn(k).transpose(2, 3) / math.sqrt(c // self.heads)
        if self.causal:
            scores = scores.masked_fill(self.mask == 0, float("-inf"))
        y = torch.softmax(scores, 3) @ v
        return self.out(y.transpose(1, 2).reshape(n, s, c))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 5, WIDTH))
        self.block, self.norm, self.head = Block(WIDTH, 4, False), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.block(x))[:, 0])


class Decoder(nn.Module):
    """GPT-2's shape: learned positions, a causal mask, a head of its own or tied to the embedding."""

    def __init__(self, tied=False, flat=False):
        super().__init__()
        self.flat = flat
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(STEPS, WIDTH)
        self.block, self.norm = Block(WIDTH, 4, True), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        y = self.head(self.norm(self.block(x)))
        return y.reshape(-1, WORDS) if self.flat else y


def sinusoids(steps, width):
    angles = torch.arange(steps).unsqueeze(1) / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([torch.sin(angles), torch.cos(angles)], 2).reshape(steps, width)


def sinusoidal_decoder():
    def function(m, tokens):
        return m.head(m.block(m.words(tokens) * math.sqrt(WIDTH) + m.table[: tokens.shape[1]]))
    return Call(function, words=nn.Embedding(WORDS, WIDTH), table=sinusoids(2 * STEPS, WIDTH), block=Block(WIDTH, 4, True),
                head=nn.Linear(WIDTH, WORDS))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaBlock(nn.Module):
    """RMSNorm, rotary positions and a gated MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, True, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in [(width, 24), (width, 24), (24, width)])
        half = width // heads // 2
        self.register_buffer("frequencies", 1 / 100 ** (torch.arange(half) / half), persistent=False)

    def turn(self, t):
        angles = torch.arange(t.shape[2])[:, None] * self.frequencies
        angles = torch.cat([angles, angles], 1)
        a, b = t.chunk(2, 3)
        return t * angles.cos() + torch.cat([-b, a], 3) * angles.sin()

    def forward(self, x):
        x = x + self.attention(self.norm1(x), self.turn)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama():
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), LlamaBlock(WIDTH, 2), RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False))


ARCHITECTURES = [
    Architecture("attention_batch_first", attention_batch_first, SEQUENCE, CLASSES),
    Architecture("attention_sequence_first", attention_sequence_first, SEQUENCE, CLASSES),
    Architecture("encoder_batch_first", lambda: encoder_layer(True), SEQUENCE, CLASSES),
    Architecture("encoder_sequence_first", lambda: encoder_layer(False), SEQUENCE, CLASSES),
    Architecture("vit", VisionTransformer, Values((3, 8, 8)), CLASSES),
    Architecture("gpt", Decoder, TOKENS, TOKENS),
    Architecture("gpt_flat_head", lambda: Decoder(flat=True), TOKENS, TOKENS),
    Architecture("gpt_tied", lambda: Decoder(tied=True), TOKENS, TOKENS),
    Architecture("sinusoidal_decoder", sinusoidal_decoder, TOKENS, TOKENS),
    Architecture("llama", llama, TOKENS, TOKENS),
]
