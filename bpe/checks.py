"""What arguments must be: each check returns its value, or raises an error that names the argument and the value."""
import operator
from typing import Any

import numpy as np


def as_text(text: Any, name: str = "text") -> str:
    """`text`, which must be a str; TypeError if it is none."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, got {type(text).__name__}: {text!r:.60}")
    return text


def as_integer(value: Any, name: str) -> int:
    """`value` as an int; TypeError if it is none. Bools are none, nor are arrays of one element."""
    if not isinstance(value, (bool, np.bool_)):
        try:
            return operator.index(value)
        except TypeError:  # where `__index__` is there, too: an array has it, whatever it holds
            pass
    raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r:.60}")


def at_least(smallest: int, value: Any, name: str, why: str = "") -> int:
    """`value` as an int; TypeError if it is none, ValueError if it is below `smallest`.

    >>> at_least(256, 100, "vocab_size", ", one for each byte")
    Traceback (most recent call last):
    ValueError: vocab_size is 100: it must be at least 256, one for each byte
    """
    value = as_integer(value, name)
    if value < smallest:
        raise ValueError(f"{name} is {value}: it must be at least {smallest}{why}")
    return value
