"""gelu, the activation of GPT-2, and the error function it is made of."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.conventions import floating, matched
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
        bent = tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a))
    elif approximate == "none":
        bent = erf(a / math.sqrt(2))
    else:
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _gelu(a, 0.5 * (1 + bent), approximate=approximate)


@operation
def _gelu(a, phi, *, approximate):
    a, phi = matched(a, phi)
    return a * phi
# The gradient in a goes back here, phi being a function of it: as a single factor of g, for an infinite g times two
# terms of different signs would be inf - inf. phi is for what is to be differentiated again.
_gelu.vjp(lambda g, a, phi, approximate: g * (phi + a * _slope(a, phi, approximate)),
          None)

def _slope(a: Any, phi: Any, approximate: str) -> Any:
    """d phi/da: the normal density, or with phi = (1 + t) / 2 half of dt/da, where 1 - t^2 is 4 phi (1 - phi)."""
    if approximate == "none":
        return exp(-0.5 * a * a) / math.sqrt(2 * math.pi)
    return 2 * phi * (1 - phi) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * a * a)
