"""Ids: integers that name the rows of a table, checked before anything is read or written with them."""
from __future__ import annotations

from numbers import Integral
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
    array = integers(ids, "ids", "0 and more" if num_rows is None else f"0 to {num_rows - 1}")
    limit = float("inf") if num_rows is None else num_rows
    if array.size and (array.min() < 0 or array.max() >= limit):
        first = first_of(array, (array < 0) | (array >= limit))
        if num_rows is None:
            raise IndexError(f"id {first} is out of range: ids are 0 or more")
        valid = f"takes ids 0 to {num_rows - 1}" if num_rows else "takes no id"
        raise IndexError(f"id {first} is out of range: a table of {num_rows} rows {valid}")
    return array


def integers(values: Any, name: str, valid: str) -> np.ndarray:
    """`values` as an array; IdTypeError, with what would have been `valid`, if they are no integers."""
    array = array_of(values)
    if array.size == 0 and isinstance(values, (list, tuple)):
        array = array.astype(np.int64)  # an empty list has no type of its own
    if array.dtype.kind not in "iu":
        got = f"{array.dtype} of shape {array.shape}"
        if array.dtype == object and array.size:  # of a list in which not all is alike
            got += f", {first_of(array, _is_no_integer(array))}"
        elif array.size:
            got += f", the first is {array.flat[0]!r}"
        raise IdTypeError(f"{name} must be integers, got {got}; valid are {valid}")
    return array


def _is_no_integer(array: np.ndarray) -> np.ndarray:
    """Of an array of any objects: which of them are no integers, or too large for 64 bits."""
    whole = [isinstance(x, Integral) and not isinstance(x, bool) and -(2**63) <= int(x) < 2**63 for x in array.flat]
    return ~np.array(whole).reshape(array.shape)


def first_of(array: np.ndarray, bad: np.ndarray) -> str:
    """The first bad one and its position, for a message.

    >>> first_of(np.array([[1, 2], [3, 4]]), np.array([[False, False], [True, True]]))
    '3 at position (1, 0)'
    """
    place = np.unravel_index(np.argmax(bad), bad.shape)
    if not place:
        return f"{array}"
    return f"{array[place]} at position {place[0] if len(place) == 1 else tuple(map(int, place))}"
