"""Exercise 6: why Adam moves rows that nobody looked up.

Adam keeps two running averages of each number's gradient g, of it and of its square, and steps by their quotient:

    m = 0.9 m + 0.1 g                       m' = m / (1 - 0.9^step)
    v = 0.999 v + 0.001 g^2                 v' = v / (1 - 0.999^step)
    number = number - lr m' / (root of v' + 1e-8)

Step is 1 at the first step. Where g is 0, as for a row that this batch did not look up, m is still not 0.
Source: Kingma and Ba, arXiv 1412.6980.
"""
import numpy as np

State = tuple[np.ndarray, np.ndarray, np.ndarray]


def adam_step(table: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, step: int, lr: float) -> State:
    """The table (V, C) and its two averages m and v after one step, as new arrays; all are (V, C)."""
    ...


def sparse_adam_step(
    table: np.ndarray, ids: np.ndarray, rows: np.ndarray, m: np.ndarray, v: np.ndarray, step: int, lr: float
) -> State:
    """The same step for the rows looked up alone: every other row keeps its numbers and its averages.

    ids (N,) and rows (N, C) are the gradient: rows[n] belongs to row ids[n]. If an id repeats, its rows are first
    added up; Adam then takes one step with the sum.
    """
    ...
