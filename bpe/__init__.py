"""From a string to token ids and back: byte pair encoding with GPT-2's vocabulary, in Python and NumPy.

    >>> import bpe
    >>> bpe.encode("Hello world")
    [15496, 995]
    >>> bpe.decode([15496, 995])
    'Hello world'

Read alphabet.py, split.py and merge.py for how it works, encoding.py for all that can be asked of it,
train.py for where the merges come from.
"""
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe import files
from bpe.encoding import Encoding
from bpe.trace import trace
from bpe.train import train

__all__ = ["Encoding", "decode", "encode", "get_encoding", "trace", "train", "vocab_size"]


@functools.cache
def get_encoding(name: str) -> Encoding:
    """The encoding of that name: "gpt2", from the two files in the cache folder (see `bpe.files`).

    The same object each time. ValueError for a name that is not known, FileNotFoundError when the files have not
    been downloaded.
    """
    if name != "gpt2":
        raise ValueError(f"there is no encoding named {name!r}: there is 'gpt2', and Encoding.from_files for others")
    return Encoding.from_files(*files.find_gpt2())


def encode(text: str, **special: Any) -> list[int]:
    """The ids of `text` in GPT-2's vocabulary; see `Encoding.encode`."""
    return get_encoding("gpt2").encode(text, **special)


def decode(ids: Sequence[int] | npt.NDArray[np.integer[Any]], errors: str = "replace") -> str:
    """The text of `ids` in GPT-2's vocabulary; see `Encoding.decode`."""
    return get_encoding("gpt2").decode(ids, errors)


def vocab_size() -> int:
    """The number of tokens in GPT-2's vocabulary.

    >>> vocab_size()
    50257
    """
    return get_encoding("gpt2").n_vocab
