"""A shuffle by swaps (Fisher and Yates, 1938): one swap after another, and the same for many swaps at once.

Swap i exchanges the value at place i with that at place targets[i], which is i or later. So place i gets its last value
then, and what it had goes on to targets[i], for a later swap to take. By hand, with targets 2 2 3 and values a b c d:

    a b c d     swap 0 and 2
    c b a d     swap 1 and 2
    c a b d     swap 2 and 3
    c a d b
"""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

TOGETHER = 1 << 14  # swaps at once, at most 1 << 20: what is looked up for them stays in the cache


def swap_each(values: NDArray[Any], targets: Int64s) -> None:
    """Swap values[i] with values[targets[i]], for i = 0, 1, 2 ..., in place; targets[i] >= i.

    >>> values = np.array(["a", "b", "c", "d"])
    >>> swap_each(values, np.array([2, 2, 3]))
    >>> print(*values)
    c a d b
    """
    swapped = values.tolist()
    for i, target in enumerate(targets.tolist()):
        swapped[i], swapped[target] = swapped[target], swapped[i]
    values[:] = swapped


def swap_together(values: NDArray[Any], targets: Int64s) -> None:
    """The same as `swap_each`, in whole arrays.

    What is at place p when swap i comes was put there by the last swap before i that has p as its target, and is what
    that swap found at its own place; if there is none it is values[p]. So every swap hands on what an earlier one
    handed on, or what was at a place from the beginning: `origin`, found by following all the links at once.

    >>> values = np.array(["a", "b", "c", "d"])
    >>> swap_together(values, np.array([2, 2, 3]))
    >>> print(*values)
    c a d b
    """
    count = len(targets)
    swaps = np.arange(count)
    places, last, before = _by_target(targets)
    within = int(np.searchsorted(places, count))

    origin = swaps.copy()  # at first: the swap that put there what swap i finds at its own place, or i if none did
    origin[places[:within]] = last[:within]
    itself = np.flatnonzero(targets == swaps)  # such a swap hands on what it finds, and comes last of its target
    origin[itself] = np.where(before[itself] < 0, itself, before[itself])
    handed_on = values[_followed(origin)]
    found = np.where(before < 0, values[targets], handed_on[before])
    values[places[within:]] = handed_on[last[within:]]
    values[:count] = found


def swap_back_together(order: Int64s, start: int, targets: Int64s) -> None:
    """Swap order[i] with order[targets[k]], for i = start + k, k = 0, 1, ...; targets[k] <= i, and order[i] is i still.

    Swap k leaves i at its target. So what it finds there is i of the last swap before with that target; if there is
    none, what was at the place from the beginning or, where the place is one of these, what the swap of it found.

    >>> order = np.arange(4)
    >>> swap_back_together(order, 0, np.array([0, 0, 1, 0]))
    >>> print(*order)
    3 2 0 1
    """
    count = len(targets)
    places, last, before = _by_target(targets)
    found = np.where(before < 0, order[targets], before + start)  # right, but for what these swaps put there
    origin = np.where((before < 0) & (targets >= start), targets - start, np.arange(count))
    order[start : start + count] = found[_followed(origin)]
    order[places] = last + start


def _by_target(targets: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Each target once, in order; the last swap that has it; and for every swap the one before with its target, or -1.

    >>> [array.tolist() for array in _by_target(np.array([2, 2, 3]))]
    [[2, 3], [1, 2], [-1, 0, -1]]
    """
    ordered = np.sort(targets << 20 | np.arange(len(targets)))  # by target, and each target's swaps in turn
    places, turns = ordered >> 20, ordered & (1 << 20) - 1
    is_last = np.ones(len(targets), bool)
    is_last[:-1] = places[1:] != places[:-1]
    before = np.full(len(targets), -1)
    again = np.flatnonzero(~is_last)
    before[turns[again + 1]] = turns[again]
    return places[is_last], turns[is_last], before


def _followed(links: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where the links from each place end: at one that has itself for a link. Each round doubles how far they reach."""
    while not np.array_equal(further := links[links], links):
        links = further
    return links
