"""Tolerances of float32 training whose sums are taken in another order."""

from collections.abc import Mapping

from xla_equiv import Tolerance


def float32_rounding(*, gradient: float, parameter: float, used: str) -> Mapping[str, Tolerance]:
    """Return tolerances for losses, gradients, optimizer state and parameters.

    Args:
        gradient: what is left of the rounding of a gradient's terms where they cancel, absolute.
        parameter: the same of a parameter after all steps.
        used: which share of them was used, and where that was measured.
    """
    return {
        "loss*": Tolerance(rtol=2e-6, atol=0.0, why=f"17 units in the last place; {used}"),
        "grad_norm": Tolerance(rtol=2e-6, atol=0.0, why=f"17 units in the last place; {used}"),
        "*grad/*": Tolerance(rtol=5e-5, atol=gradient, why=f"for elements near zero, whose sums cancel; {used}"),
        "optim/*/exp_avg": Tolerance(rtol=5e-5, atol=gradient / 10, why=f"a tenth of each gradient is new; {used}"),
        "optim/*/exp_avg_sq": Tolerance(rtol=1e-3, atol=1e-11, why=f"squares of gradients; {used}"),
        "optim/*/momentum_buffer": Tolerance(rtol=5e-5, atol=10 * gradient, why=f"a sum of up to ten gradients; {used}"),
        "param/*": Tolerance(rtol=1e-5, atol=parameter, why=f"the updates' errors add up; {used}"),
    }
