"""Writing a vocabulary down in GPT-2's format: encoder.json and vocab.bpe, as `files.read_vocabulary` reads them.

An encoder knows the rank of each token, but vocab.bpe holds merges: the two parts of each. They are found by encoding
the token with the tokens of lower rank alone, which leaves two parts to merge.

By hand, with ab: 256, bc: 257, abc: 258 as in merge.py: of "abc" the tokens below 258 make "ab c", since 256 is lower
than 257. So the lines are "a b", "b c", "ab c".
"""
import contextlib
import errno
import json
import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path

from bpe.alphabet import BYTE_TO_CHARACTER, to_characters
from bpe.merge import merge_long
from bpe.special import has_brackets

NAMES = "encoder.json", "vocab.bpe"
VERSION = "#version: 0.2"


def merges_of(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The two parts of each token of more than a byte, in the order of their ranks.

    ValueError for a token that no merge of two others makes.

    >>> merges_of({b"a": 97, b"b": 98, b"c": 99, b"ab": 256, b"bc": 257, b"abc": 258})
    [(b'a', b'b'), (b'b', b'c'), (b'ab', b'c')]
    """
    known: dict[bytes, int] = {}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        if len(token) > 1:
            parts = merge_long(token, known)
            if len(parts) != 2:
                raise ValueError(
                    f"the token {token!r} (id {ranks[token]}) is no merge: with the tokens of lower ids it is {parts}"
                )
            merges.append((parts[0], parts[1]))
            known[token] = ranks[token]
    return merges


def save_vocabulary(
    folder: str | os.PathLike[str], ranks: Mapping[bytes, int], special_tokens: Mapping[str, int]
) -> tuple[Path, Path]:
    """Write encoder.json and vocab.bpe into `folder`, and return their paths; see `Encoding.save`."""
    if not os.fspath(folder):
        raise ValueError("the name of the folder is empty; this one is '.'")
    ids = {to_characters(token): id for token, id in ranks.items()}
    for byte, character in BYTE_TO_CHARACTER.items():
        if character not in ids:
            raise ValueError(f"there is no token for the byte 0x{byte:02x}, and the files must have one for each")
    check_special_tokens(special_tokens)
    for token in special_tokens:
        if token in ids:
            raise ValueError(f"the special token {token!r} and id {ids[token]} are written alike in the files")
    ids |= special_tokens
    if set(ids.values()) != set(range(len(ids))):
        missing = next(id for id in range(len(ids)) if id not in set(ids.values()))
        raise ValueError(f"no token has the id {missing}, and the files must have each from 0 to {len(ids) - 1}")
    in_order = {token: ids[token] for token in sorted(ids, key=ids.__getitem__)}
    merges = [f"{to_characters(left)} {to_characters(right)}" for left, right in merges_of(ranks)]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / NAMES[0], folder / NAMES[1]
    texts = json.dumps(in_order), "\n".join([VERSION, *merges, ""])
    write_whole({path: text.encode() for path, text in zip(paths, texts)})
    return paths


def check_special_tokens(special_tokens: Collection[str]) -> None:
    """ValueError for one that `files.read_vocabulary` would not know for a special token."""
    for token in special_tokens:
        if not has_brackets(token):
            raise ValueError(f"the files tell a special token by its brackets, <so> or [SO], and {token!r} has none")


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Write files so that each is there whole or not at all: all are on the disk before the first has its name.

    Each is written under a temporary name in its folder, then renamed; a link stays, and what it leads to is replaced.
    A device or a pipe, as /dev/stdout, is written to. An OSError names the file that was asked for.
    """
    real = {path: Path(os.path.realpath(path)) for path in contents}
    for path in contents:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    files = [path for path in contents if path.is_file() or not path.exists()]
    temporary = {path: real[path].with_name(f".{real[path].name}.{secrets.token_hex(8)}.part") for path in files}
    try:
        for path, data in contents.items():
            if path not in temporary:
                path.write_bytes(data)
                continue
            with open(temporary[path], "xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
        for path in files:
            os.replace(temporary[path], real[path])
    except BaseException as error:
        for part in temporary.values():
            with contextlib.suppress(OSError):
                part.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
