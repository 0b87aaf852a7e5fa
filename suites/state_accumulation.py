"""State beside parameters and gradients: accumulating on XLA must handle it as the native loop does.

Each case trains a tiny model with one thing that accumulation can get wrong: carried tensors (one, two,
three, five, or fed by the model), a gradient that exists before the step, a frozen parameter, a parameter
without gradient, integer inputs, dropout, a last batch of another size, bfloat16 parameters.

Catches: carried tensors that come back permuted, stale or only once updated, an existing gradient that is
dropped or counted twice, a frozen parameter that moves, zeros where there should be no gradient, a dropout
mask that is drawn once and used by all iterations, a short batch that weighs as much as a full one.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.models import MLP, classification_loss, labelled_batch
from xla_equiv import Case, ExpectedFailure, Skip, Status, Suite, Tolerance, Variant
from xla_equiv.treatments import LoopedAccumulation, WhileAccumulation

FEATURES, CLASSES, SAMPLES, MICRO_BATCHES = 12, 5, 16, 4


def batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, ...]:
    """Return 16 samples of 12 features in 5 classes."""
    return labelled_batch(SAMPLES, FEATURES, classes=CLASSES)


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return SGD with momentum, which passes the noise of a gradient on in proportion."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


PLAIN = Case(
    build=lambda: MLP((FEATURES, 16, CLASSES)),
    batch=batch,
    loss=classification_loss,
    optimizer=sgd,
    steps=2,
    micro_batches=MICRO_BATCHES,
    seed=4,
)


def counters(count: int) -> Case:
    """Return a case that carries `count` tensors of one shape, of which the i-th grows by i + 1 per micro-batch."""

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        grown = (tensor + (i + 1) for i, tensor in enumerate(carried))
        return classification_loss(model, inputs, labels), *grown

    return replace(PLAIN, loss=loss, carried=lambda: tuple(torch.full((3,), 100.0 * i) for i in range(count)))


def moving_average_loss(model: nn.Module, inputs: Tensor, labels: Tensor, average: Tensor) -> tuple[Tensor, Tensor]:
    """Return (loss, moving average of the mean logits); the loss draws the logits to the average so far."""
    logits = model(inputs)
    loss = functional.cross_entropy(logits, labels) + (logits - average).square().mean()
    return loss, 0.5 * average + 0.5 * logits.mean(0).detach()


def leave_gradient(model: nn.Module, step: int) -> None:
    """Leave a tenth of each parameter as its gradient, for the step to accumulate onto."""
    for parameter in model.parameters():
        parameter.grad = 0.1 * parameter.detach()


def frozen_first_layer() -> nn.Module:
    """Return an MLP whose first layer is not trained."""
    model = MLP((FEATURES, 16, CLASSES))
    model.layers[0].requires_grad_(False)
    return model


def with_unused_parameter() -> nn.Module:
    """Return an MLP with a trainable parameter that its forward pass does not read."""
    model = MLP((FEATURES, 16, CLASSES))
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return model


def embedding_classifier() -> nn.Module:
    """Return an embedding of 12 tokens, joined over the four positions of a sequence, then an MLP."""
    embedding = nn.Embedding(12, 6)
    nn.init.uniform_(embedding.weight, -1.0, 1.0)
    return nn.Sequential(embedding, nn.Flatten(), MLP((24, 16, CLASSES)))


def token_batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, ...]:
    """Return 16 sequences of 4 int64 tokens, which repeat in a batch, in 5 classes."""
    return torch.randint(0, 12, (SAMPLES, 4)), torch.randint(0, CLASSES, (SAMPLES,))


class NoisyScale(nn.Module):
    """Dropout of the inputs, then a weighted sum over the features; linear in the dropout mask."""

    def __init__(self, features: int, *, probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(probability)
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, features))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return (sums, shape (n,); share of kept elements of each feature, shape (features,))."""
        kept = self.dropout(inputs)
        return kept @ self.weight, (kept != 0).to(inputs.dtype).mean(0)


DROPPED, DROPOUT_ROWS, DROPOUT_FEATURES = 0.1, 2**15, 8


def dropout_batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, ...]:
    """Return inputs in [0.5, 1.5): none is zero, so that a zero after dropout was dropped."""
    return (torch.rand(DROPOUT_ROWS, DROPOUT_FEATURES) + 0.5,)


def dropout_loss(
    model: NoisyScale, inputs: Tensor, last_kept: Tensor, repeats: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (loss, share kept of each feature, micro-batches so far whose mask was that of the one before).

    Two independent masks keep equally many of one feature with probability 0.5 %, of all eight with 5e-19.
    """
    sums, kept = model(inputs)
    loss = sums.mean() + 0.5 * model.weight.square().sum()
    return loss, kept, repeats + (kept == last_kept).all().to(repeats.dtype)


def uneven_batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, ...]:
    """Return 16 samples, or 5 in the last micro-batch, and their weight.

    The weight, (samples / samples of the step) * micro_batches, makes the mean over micro-batches that of
    one big batch.
    """
    last = 5
    samples = last if micro_batch == MICRO_BATCHES - 1 else SAMPLES
    weight = samples * MICRO_BATCHES / (SAMPLES * (MICRO_BATCHES - 1) + last)
    return *labelled_batch(samples, FEATURES, classes=CLASSES), torch.tensor(weight)


def weighted_loss(model: nn.Module, inputs: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Return the mean cross entropy of the micro-batch, times its weight."""
    return classification_loss(model, inputs, labels) * weight


def bfloat16_batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, ...]:
    """Return the plain batch with bfloat16 inputs."""
    inputs, labels = labelled_batch(SAMPLES, FEATURES, classes=CLASSES)
    return inputs.bfloat16(), labels


SEEN = "between the three arms, with one and two threads, on generic, SSE4, AVX2 and AVX-512 kernels"

SIX_SIGMA = f"the arms draw other masks; 6 sqrt(2) sd of one arm's value, n = {DROPOUT_ROWS} rows x 4 micro-batches: "


def six_sigma(atol: float, formula: str) -> Tolerance:
    """Return a tolerance for a quantity that is linear in independent masks.

    Not for regression: XLA draws the same bits everywhere. The native masks depend on the library that
    draws them, hence the anchor.
    """
    return Tolerance(rtol=0.0, atol=atol, why=SIX_SIGMA + formula, only=("equivalence", "anchor"))


# v = p / (1 - p) E[x^2] = 0.1204 with p = 0.1 and x uniform in [0.5, 1.5); |w|^2 = 8.86 at most.
DROPOUT_TOLERANCE = {
    "loss": six_sigma(2.7e-2, "sd = sqrt(v |w|^2 / n) = 2.9e-3, and 5 % from the parameters"),
    "loss/*": six_sigma(5.4e-2, "sd = sqrt(v |w|^2 / rows) = 5.7e-3, and 5 % from the parameters"),
    "carried/0": six_sigma(1.5e-2, "sd = sqrt(p (1 - p) / rows) = 1.66e-3"),
    "grad_norm": six_sigma(9e-3, "sd = sqrt(v / n) = 9.6e-4, and 5 % from the parameters"),
    "grad/weight": six_sigma(9e-3, "sd = sqrt(v / n) = 9.6e-4, and 5 % from the parameters"),
    "optim/weight/*": six_sigma(1.4e-2, "sd = 1.57 sqrt(v / n), 1.57 = |(1, 0.9, 0.81)| for the momentum"),
    "param/weight": six_sigma(3e-3, "sd = lr 3.46 sqrt(v / n), 3.46 = |(2.71, 1.9, 1)| for the momentum"),
    "param/*": Tolerance(atol=1.5e-6, why=f"equal masks; at most 11 % used {SEEN}"),
}

# One unit in the last place of bfloat16 is 2^-8 to 2^-7 relative: a fault below about 10 % cannot be seen.
BFLOAT16_TOLERANCE = {
    "loss*": Tolerance(rtol=2e-3, atol=0.0, why=f"float32 loss of bfloat16 logits; at most 7 % used {SEEN}"),
    "grad_norm": Tolerance(rtol=2.0**-5, atol=0.0, why=f"at most 19 % used {SEEN}"),
    "grad/*": Tolerance(rtol=2.0**-6, atol=8e-4, why=f"at most 19 % used {SEEN}"),
    "grad/layers.1.bias": Tolerance(atol=3e-3, why=f"five times larger than the others; at most 20 % used {SEEN}"),
    "optim/*": Tolerance(rtol=2.0**-6, atol=1.2e-3, why=f"momentum: at most 20 % used {SEEN}"),
    "optim/layers.1.bias/*": Tolerance(atol=4e-3, why=f"five times larger than the others; at most 20 % used {SEEN}"),
    "param/*": Tolerance(rtol=2.0**-5, atol=5e-4, why=f"at most 18 % used {SEEN}"),
}

SUITE = Suite(
    case={
        "carried_1": counters(1),
        "carried_2": counters(2),
        "carried_3": counters(3),
        "carried_5": counters(5),
        "carried_of_parameters": replace(
            PLAIN, loss=moving_average_loss, carried=lambda: (torch.zeros(CLASSES),), steps=3
        ),
        "existing_grad": replace(PLAIN, before_accumulation=leave_gradient, steps=3),
        "frozen": replace(PLAIN, build=frozen_first_layer),
        "unused_parameter": replace(PLAIN, build=with_unused_parameter),
        "integer_inputs": replace(PLAIN, build=embedding_classifier, batch=token_batch),
        "dropout": replace(
            PLAIN,
            build=lambda: NoisyScale(DROPOUT_FEATURES, probability=DROPPED),
            batch=dropout_batch,
            loss=dropout_loss,
            carried=lambda: (torch.zeros(DROPOUT_FEATURES), torch.zeros(())),
            steps=3,
        ),
        "uneven_last_batch": replace(PLAIN, batch=uneven_batch, loss=weighted_loss),
        "bfloat16": replace(PLAIN, build=lambda: MLP((FEATURES, 16, CLASSES)).bfloat16(), batch=bfloat16_batch),
    },
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        Variant("loop", backend="xla:cpu", treatments=[LoopedAccumulation()]),
        Variant("while", backend="xla:cpu", treatments=[WhileAccumulation()]),
    ],
    tolerance={
        "loss*": Tolerance(rtol=2e-6, atol=0.0, why=f"at most 1.6e-7 relative {SEEN}"),
        "grad_norm": Tolerance(rtol=2e-6, atol=0.0, why=f"at most 1.1e-7 relative {SEEN}"),
        "grad/*": Tolerance(rtol=5e-5, atol=2e-8, why=f"at most 2.7e-9 beyond rtol, in elements near zero, {SEEN}"),
        "optim/*": Tolerance(rtol=5e-5, atol=2e-8, why=f"momentum: at most 2.8e-9 beyond rtol {SEEN}"),
        "param/*": Tolerance(rtol=1e-5, atol=1e-7, why=f"at most 9e-9 beyond rtol {SEEN}"),
    },
    case_tolerance={"dropout": DROPOUT_TOLERANCE, "bfloat16": BFLOAT16_TOLERANCE},
    expected_failures=[
        *(
            ExpectedFailure(
                test=f"carried_{count}.while[xla:cpu]",
                status=Status.OUTSIDE,
                keys="carried/*",
                why="torch_xla 2.9.0 returns three or more carried tensors in reverse order, all but the first",
            )
            for count in (3, 5)
        ),
        ExpectedFailure(
            test="unused_parameter.while[xla:cpu]",
            status=Status.CRASHED,
            raises="TypeError",
            why="torch_xla 2.9.0 cannot return the gradient None from its While, which the loop leaves",
        ),
    ],
    skips=[
        Skip(test="uneven_last_batch.while[xla:cpu]", why="a While stacks its micro-batches: all must have one shape"),
    ],
)
