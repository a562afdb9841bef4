"""gelu, the activation of GPT-2, and the error function it is made of."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.conventions import floating
from minigrad.engine import operation
from minigrad.ops import exp, tanh


@operation
def erf(a):
    return _erf(a).astype(floating(a).dtype)
erf.vjp(lambda g, a: g * (2 / math.sqrt(math.pi)) * exp(-a * a))


_erf = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has no erf of its own


def gelu(a: Any, approximate: str = "none") -> Any:
    """a * Phi(a), Phi the normal distribution function; approximate='tanh' is the form GPT-2 uses.

    Source: Hendrycks and Gimpel, arXiv 1606.08415.
    """
    if approximate == "tanh":
        return 0.5 * a * (1 + tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)))
    if approximate != "none":
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return 0.5 * a * (1 + erf(a / math.sqrt(2)))
