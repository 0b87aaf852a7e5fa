"""A Llama decoder, its token batches with ignored labels, and its causal loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

IGNORED = -100


class RMSNorm(nn.Module):
    """Return x / sqrt(mean(x^2) + eps) * weight, the mean taken over the last dimension."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, shape (..., width), normalised."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_angles(length: int, head_width: int, *, base: float = 10000.0) -> Tensor:
    """Return angles[p, j] = p * base^(-2 (j mod h) / head_width), h = head_width / 2; shape (length, head_width).

    Source: Su et al., RoFormer (2021), eq. 15, in the half-split layout of Llama.
    """
    frequencies = base ** (-torch.arange(0, head_width, 2) / head_width)
    return torch.outer(torch.arange(length), frequencies).repeat(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return `x`, shape (batch, heads, length, head width), turned by the angle of each position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    """Causal self-attention in which `heads // kv_heads` query heads share one key and value head."""

    def __init__(self, width: int, *, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.sharing = heads // kv_heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.v = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, future: Tensor) -> Tensor:
        """Return the attended `x`, shape (batch, length, width); `future` marks what a position must not see."""
        q, k, v = (self._heads(projection(x)) for projection in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.sharing, dim=1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_width)
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return mixed

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_width).transpose(1, 2)


class SwiGLU(nn.Module):
    """Return down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the shape of `x`, (..., width)."""
        output: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return output


class Layer(nn.Module):
    """One pre-normalised decoder layer: attention, then SwiGLU, each added to its input."""

    def __init__(self, width: int, *, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, heads=heads, kv_heads=kv_heads)
        self.mlp_norm = RMSNorm(width)
        self.mlp = SwiGLU(width, hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, future: Tensor) -> Tensor:
        """Return the layer's output, shape (batch, length, width)."""
        x = x + self.attention(self.attention_norm(x), cos, sin, future)
        output: Tensor = x + self.mlp(self.mlp_norm(x))
        return output


class Llama(nn.Module):
    """A decoder in the architecture of Llama.

    Args:
        layers: decoder layers.
        tied: whether the output projection is the embedding itself.
        vocabulary, length, width, heads, kv_heads, hidden: sizes; `length` is the longest sequence.
    """

    cos: Tensor
    sin: Tensor
    future: Tensor

    def __init__(
        self,
        *,
        layers: int,
        tied: bool,
        vocabulary: int = 48,
        length: int = 16,
        width: int = 24,
        heads: int = 4,
        kv_heads: int = 2,
        hidden: int = 48,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)
        self.layers = nn.ModuleList(Layer(width, heads=heads, kv_heads=kv_heads, hidden=hidden) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        angles = rotary_angles(length, width // heads)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (batch, length, vocabulary), of int64 `tokens`, shape (batch, length)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.future)
        logits: Tensor = self.head(self.norm(x))
        return logits


@dataclass(frozen=True, kw_only=True)
class TokenBatches:
    """Random sequences whose tails are padding, ignored by the loss; a Case's `batch`.

    The padding depends on (step, micro-batch) alone: any micro-batch can tell how many labels the whole
    step counts, and the counts of its micro-batches differ. All replicas have equal counts.
    """

    micro_batches: int
    vocabulary: int = 48
    sequences: int = 4
    length: int = 16

    def __call__(self, step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return (tokens, labels, tokens per micro-batch).

        tokens and labels are int64, shape (sequences, length); a label is its token, or -100 where ignored.
        The last is a float32 scalar, (labels counted in the step) / micro_batches.
        """
        tokens = torch.randint(0, self.vocabulary, (self.sequences, self.length))
        padding = torch.arange(self.length) >= self.lengths(step, micro_batch)[:, None]
        counted = sum(int((self.lengths(step, m) - 1).sum()) for m in range(self.micro_batches))
        return tokens, tokens.masked_fill(padding, IGNORED), torch.tensor(counted / self.micro_batches)

    def lengths(self, step: int, micro_batch: int) -> Tensor:
        """Return how many tokens of each sequence are not padding, from length / 4 up to length."""
        row = torch.arange(self.sequences)
        return self.length - (5 * step + 7 * micro_batch + (2 * micro_batch + 3) * row) % (3 * self.length // 4 + 1)


def join_token_batches(batches: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the batches of several replicas as one whose `causal_loss` is the mean of theirs."""
    tokens, labels, tokens_per_micro_batch = zip(*batches, strict=True)
    return torch.cat(tokens), torch.cat(labels), torch.stack(tokens_per_micro_batch).sum()


def causal_loss(model: nn.Module, tokens: Tensor, labels: Tensor, tokens_per_micro_batch: Tensor) -> Tensor:
    """Return sum of the cross entropies of the counted labels / tokens_per_micro_batch.

    The mean over a step's micro-batches is then the mean over all tokens that the step counts, exactly as
    in one big batch. The mean of each micro-batch's own token mean is another number when the counts
    differ: it gives a token in a short micro-batch more weight.
    """
    logits = model(tokens)[:, :-1].flatten(0, 1)
    total = functional.cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="sum")
    return total / tokens_per_micro_batch
