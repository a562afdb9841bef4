"""A small reverse-mode automatic differentiation engine on NumPy.

Read rows.py first (lookup and scatter_add, the pair this project is about), then engine.py (how an operation is
recorded, and the walk back), ops.py and tensor.py.
"""
from minigrad import functional, optim, random
from minigrad.diagram import draw
from minigrad.engine import no_grad, operation
from minigrad.gelu import erf
from minigrad.gradcheck import GradcheckError, gradcheck, gradgradcheck
from minigrad.gradients import grad
from minigrad.module import Module, Parameter
from minigrad.ops import maximum, where
from minigrad.random import manual_seed
from minigrad.rows import RowSparse
from minigrad.saving import load, save
from minigrad.tensor import Tensor

__all__ = [
    "GradcheckError", "Module", "Parameter", "RowSparse", "Tensor", "draw", "erf", "functional", "grad", "gradcheck",
    "gradgradcheck", "load", "manual_seed", "maximum", "no_grad", "operation", "optim", "random", "save", "where",
]
