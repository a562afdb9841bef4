import numpy as np


def add_positions(vectors, positions):
    length = vectors.shape[1]
    if length > len(positions):
        raise ValueError(f"{length} places, the table has {len(positions)}")
    return vectors + positions[:length]


def positions_backward(g, num_positions):
    table = np.zeros((num_positions, g.shape[2]), g.dtype)
    table[:g.shape[1]] = g.sum(axis=0)
    return table
