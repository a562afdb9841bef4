"""What is learned from: a vocabulary, and every window of a text's token ids."""
from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from commands import Failed

import bpe
from embedding.windows import SlidingWindows


def read_vocabulary(folder: Path | None) -> bpe.Encoding:
    """GPT-2's, fetched if it is missing; or that in a folder, an encoder.json and a vocab.bpe."""
    if folder:
        return bpe.Encoding.from_files(folder / "encoder.json", folder / "vocab.bpe", name=folder.name)
    try:
        return bpe.get_encoding("gpt2")
    except FileNotFoundError:
        import download_gpt2_vocab

        if download_gpt2_vocab.main(["--quiet"]) != 0:  # it has said why
            raise Failed("the vocabulary could not be fetched") from None
        return bpe.get_encoding("gpt2")


def read_windows(path: Path | None, encoding: bpe.Encoding, context: int, batch: int) -> SlidingWindows:
    """Every window of the text at `path` (UTF-8, or a token file .bin or .npy), or of a text that is fetched."""
    name = str(path) if path else "the State of the Union addresses"
    is_file_of_ids = path is not None and path.suffix in (".bin", ".npy")
    ids = path if is_file_of_ids else encoding.encode_to_numpy(
        read_text(path) if path else fetched_text(), disallowed_special=()
    )
    try:
        windows = SlidingWindows(ids, context, stride=1, vocab_size=encoding.n_vocab)
    except (ValueError, TypeError) as error:  # of a file of ids it names the file
        raise Failed(str(error) if is_file_of_ids else f"{name}: {error}") from None
    if len(windows) < batch:
        raise Failed(f"{name}: {len(windows)} windows of {context} tokens do not fill a batch of {batch}: --batch")
    return windows


def fetched_text() -> str:
    from fetching import texts

    return texts.load("english")


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failed(f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x} at {error.start:,}") from None


def fingerprint(ids: np.ndarray) -> str:
    """The SHA-256 of the ids, whatever their dtype."""
    digest = hashlib.sha256()
    for part in parts(ids):
        digest.update(part.astype("<u4").data)
    return digest.hexdigest()


def token_counts(ids: np.ndarray, vocab_size: int) -> np.ndarray:
    """How often each id occurs: (V,)."""
    return sum((np.bincount(part, minlength=vocab_size) for part in parts(ids)), np.zeros(vocab_size, np.int64))


def parts(ids: np.ndarray) -> Iterator[np.ndarray]:
    """A token file may be larger than memory."""
    return (ids[start:start + (1 << 20)] for start in range(0, len(ids), 1 << 20))
