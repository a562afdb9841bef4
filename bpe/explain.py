"""How a text becomes ids, written out: each piece, its bytes, its merges in order, its ids."""
from collections.abc import Mapping
from typing import NamedTuple

from bpe.merge import merge_steps


class Explanation(NamedTuple):
    r"""How one piece becomes ids; as a string, for people to read.

    >>> print(explain_piece(" abc", {b"ab": 256, b"abc": 258}, [32, 258]))
    ' abc'  20 61 62 63
      256  'a' + 'b'
      258  'ab' + 'c'
      ids  32 258
    """

    piece: str
    data: bytes
    merges: list[tuple[bytes, bytes, int]]  # in order: left, right, and the rank of both joined
    ids: list[int]

    def __str__(self) -> str:
        rows = [(str(rank), f"{readable(left)} + {readable(right)}") for left, right, rank in self.merges]
        rows.append(("ids", " ".join(map(str, self.ids))))
        width = max(len(head) for head, _ in rows)
        lines = [f"{self.piece!r}  {self.data.hex(' ')}", *(f"  {head:>{width}}  {rest}" for head, rest in rows)]
        return "\n".join(lines)


def explain_piece(piece: str, ranks: Mapping[bytes, int], ids: list[int]) -> Explanation:
    """The explanation of a piece whose ids are `ids`."""
    data = piece.encode()
    single_bytes = [data[i : i + 1] for i in range(len(data))]
    return Explanation(piece, data, list(merge_steps(single_bytes, ranks)), ids)


def readable(token: bytes) -> str:
    r"""A token as text where it is valid, else its bytes in hexadecimal.

    >>> readable(b" the"), readable(b"\xe4\xbd")
    ("' the'", 'e4 bd')
    """
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return token.hex(" ")
