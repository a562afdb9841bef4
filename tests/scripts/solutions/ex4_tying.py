import numpy as np


def head_gradient(hidden, g):
    return g.T @ hidden


def tied_gradient(ids, table, g):
    total = head_gradient(table[ids], g)
    np.add.at(total, ids, g @ table)
    return total
