import numpy as np


def adam_step(table, g, m, v, step, lr):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return table - lr * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8), m, v


def sparse_adam_step(table, ids, rows, m, v, step, lr):
    touched, place = np.unique(ids, return_inverse=True)
    g = np.zeros((len(touched), rows.shape[1]), rows.dtype)
    np.add.at(g, place, rows)
    results = table.copy(), m.copy(), v.copy()
    for whole, part in zip(results, adam_step(table[touched], g, m[touched], v[touched], step, lr)):
        whole[touched] = part
    return results
