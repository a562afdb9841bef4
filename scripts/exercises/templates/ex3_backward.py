"""Exercise 3: the way back through a lookup.

Forward, row ids[n] of the table was copied into place n. Backward, place n has a gradient g[n], and every row of the
table gets the gradients of all the places it was copied into.
"""
import numpy as np


def lookup_backward(ids: np.ndarray, g: np.ndarray, num_rows: int) -> np.ndarray:
    """The gradient of the table, (num_rows, C), from that of the rows looked up.

    ids: any shape. g: ids.shape + (C,), and its dtype is that of the result. A row that no id names gets zeros.
    """
    ...
