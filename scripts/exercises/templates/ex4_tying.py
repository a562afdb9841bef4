"""Exercise 4: weight tying. One table is read twice, so it has two gradients.

    hidden = table[ids]             (N, C)   as the embedding
    logits = hidden @ table.T       (N, V)   as the head: a score for each token, the product with its row
"""
import numpy as np


def head_gradient(hidden: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The gradient that the table (V, C) gets as the head, from g (N, V), the gradient of the logits.

    hidden: (N, C).
    """
    ...


def tied_gradient(ids: np.ndarray, table: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The whole gradient of the table (V, C): as the head and as the embedding.

    ids: (N,), in which an id may repeat. g: (N, V), the gradient of the logits.
    """
    ...
