"""Exercise 5: positions. A second table has a row for each place, added to the vector of the token that stands there.

Without it "dog bites man" and "man bites dog" would be the same three vectors.
"""
import numpy as np


def add_positions(vectors: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """vectors (B, T, C) with row t of `positions` (P, C) added at each place t: (B, T, C), a new array.

    Raises ValueError for a sequence longer than the table, T > P.
    """
    ...


def positions_backward(g: np.ndarray, num_positions: int) -> np.ndarray:
    """The gradient of the position table, (num_positions, C), from g (B, T, C), the gradient of the sum.

    A place that no sequence reached gets zeros.
    """
    ...
