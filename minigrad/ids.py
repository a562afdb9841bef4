"""Ids: integers that name the rows of a table, checked before anything is read or written with them."""
from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.engine import array_of


class IdTypeError(TypeError, RuntimeError):
    """Ids of a type that cannot name a row. (A TypeError by Python's custom, a RuntimeError by torch's.)"""


def checked_ids(ids: Any, num_rows: int | None = None) -> np.ndarray:
    """`ids` as an integer array, every one of them within [0, num_rows), or only not negative where that is None.

    NumPy would read True as a mask and -1 as the last row without a word; here both are refused.

    Raises IdTypeError for float, bool and other dtypes; IndexError with the id, its position and the valid range.

    >>> checked_ids([2, 0], num_rows=3)
    array([2, 0])
    >>> checked_ids([2, 3], num_rows=3)
    Traceback (most recent call last):
        ...
    IndexError: id 3 at position 1 is out of range: a table of 3 rows takes ids 0 to 2
    """
    array = array_of(ids)
    if array.size == 0 and isinstance(ids, (list, tuple)):
        array = array.astype(np.int64)  # an empty list has no type of its own
    if array.dtype.kind not in "iu":
        first = f", the first is {array.flat[0]!r}" if array.size else ""
        valid = "and more" if num_rows is None else f"to {num_rows - 1}"
        raise IdTypeError(f"ids must be integers, got {array.dtype} of shape {array.shape}{first}; valid are 0 {valid}")
    limit = float("inf") if num_rows is None else num_rows
    if array.size and (array.min() < 0 or array.max() >= limit):
        place = np.unravel_index(np.argmax((array < 0) | (array >= limit)), array.shape)
        where = f" at position {place[0] if len(place) == 1 else tuple(map(int, place))}" if place else ""
        if num_rows is None:
            raise IndexError(f"id {array[place]}{where} is out of range: ids are 0 or more")
        valid = f"takes ids 0 to {num_rows - 1}" if num_rows else "takes no id"
        raise IndexError(f"id {array[place]}{where} is out of range: a table of {num_rows} rows {valid}")
    return array
