"""Exercise 2: a lookup is a matrix product with a one-hot matrix, done without the matrix.

The table of the examples, 6 tokens (V) of 3 numbers (C), as torch.manual_seed(123) draws it:

    0   0.3374 -0.1778 -0.1690        3  -0.4015  0.9666 -1.1481
    1   0.9178  1.5810  1.3010        4  -1.1589  0.3255 -0.6315
    2   1.2753 -0.2010 -0.1606        5  -2.8400 -0.7849 -1.4096
"""
import numpy as np


def one_hot(ids: np.ndarray, num_rows: int) -> np.ndarray:
    """A row for each id, with a 1 at the id and 0 elsewhere: ids.shape + (num_rows,).

    one_hot(np.array([2, 0]), 3) is [[0, 0, 1], [1, 0, 0]].
    """
    ...


def one_hot_lookup(ids: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The rows of `table` (V, C) that `ids` (any shape) name, by a matrix product: ids.shape + (C,)."""
    ...


def lookup(ids: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The same rows without the product: ids.shape + (C,).

    Raises IndexError for an id that names no row: below 0, or V and above. (NumPy alone would take -1 for the last.)
    """
    ...


def distance(a: int, b: int, num_rows: int) -> float:
    """The distance between the one-hot vectors of the ids a and b, the root of the sum of squared differences.

    What does it say about how alike two tokens are?
    """
    ...
