"""Find, verify and read vocabulary files.

Files that the project downloads, or finds in some cache, are trusted only with their SHA-256 (`find`, `verify`;
the table is manifest.py). Files that a person names are checked for structure (`read_vocabulary`), so that any
vocabulary in GPT-2's format loads, and a damaged one is refused with the file, the line and the reason.
"""
import hashlib
import json
import os
import sys
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np

from bpe.alphabet import BYTES_IN_ID_ORDER, CHARACTER_TO_BYTE
from bpe.manifest import ENCODER_JSON, SETS, VOCAB_BPE, File
from bpe.special import has_brackets

PROJECT = "string-to-vectors"


# -- where files are


def cache_folder() -> Path:
    """The folder the project keeps fetched files in; it need not exist yet.

    `GPT2_VOCAB_DIR` if set; else `string-to-vectors` in this user's cache folder: `$XDG_CACHE_HOME` or `~/.cache`
    on Linux, `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows. Never a folder that others can write to.
    """
    chosen = os.environ.get("GPT2_VOCAB_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / PROJECT
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / PROJECT
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))  # "if relative, ignore it": XDG base directory specification
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / PROJECT


def other_copies(file: File) -> Iterator[Path]:
    """Where other programs of this user may have put the same file: tiktoken's cache, then the model hub's."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield from tiktoken_copies(file, Path(os.environ[variable]))
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or Path(home, "hub")
    for path in file.hub:
        *repository, name = path.split("/")
        yield from sorted(Path(hub, "--".join(["models", *repository]), "snapshots").glob(f"*/{name}"))


def tiktoken_copies(file: File, folder: Path) -> Iterator[Path]:
    """tiktoken names a file in its cache by the SHA-1 of the address it came from."""
    for _, url in file.urls:
        yield folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def find(name: str) -> Path:
    """The path of a fetched file, its SHA-256 verified: `find("bert")`, `find("llama")`, `find("encoder.json")`.

    Looks in the cache folder first, then where tiktoken and the model hub keep theirs. Raises FileNotFoundError
    that names each path looked for and the command that fetches the file; ValueError for an unknown name.
    """
    files = SETS.get(name, ()) or [file for files in SETS.values() for file in files if file.name == name]
    if len(files) != 1:
        known = [key if len(files) == 1 else file.name for key, files in SETS.items() for file in files]
        raise ValueError(f"no file is called {name!r}; there are {', '.join(known)}")
    return _find(files[0])


def find_gpt2() -> tuple[Path, Path]:
    """The paths of GPT-2's encoder.json and vocab.bpe, as `find` finds them."""
    encoder_json, vocab_bpe = SETS["gpt2"]
    return _find(encoder_json), _find(vocab_bpe)


def _find(file: File) -> Path:
    looked_for = []
    for path in (cache_folder() / file.name, *other_copies(file)):
        try:
            verify(path, file.name)
            return path
        except FileNotFoundError:
            looked_for.append(f"{path}: no such file")
        except (OSError, ValueError) as error:
            looked_for.append(str(error))
    owner = next(name for name, files in SETS.items() if file in files)
    raise FileNotFoundError(
        "\n  ".join([f"{file.name} was not found; looked for", *looked_for])
        + f"\nfetch it with: python scripts/download_gpt2_vocab.py {owner}"
        + f"\nor copy it there by hand (SHA-256 {file.sha256}); GPT2_VOCAB_DIR names another folder"
    )


def verify(path: str | os.PathLike[str], name: str) -> bytes:
    """Read the file at `path`, which should be the manifest's `name`; ValueError that says how it differs."""
    (file,) = (file for files in SETS.values() for file in files if file.name == name)
    data = Path(path).read_bytes()
    reason = difference(data, file)
    if reason:
        raise ValueError(f"{path}: not the {name} it should be: {reason}")
    return data


def difference(data: bytes, file: File) -> str | None:
    """How `data` differs from the file it should be, and the likely cause; None if its SHA-256 is right."""
    digest = hashlib.sha256(data).hexdigest()
    if digest == file.sha256:
        return None
    if data[:200].lstrip().startswith(b"<"):
        cause = "a web page, perhaps a network's login"
    elif 0 < data.count(b"\r\n") == len(data) - file.bytes:
        cause = "line ends converted to CRLF"
    else:
        cause = "cut short, or another file" if len(data) < file.bytes else "another file"
    return f"{len(data):,} bytes, SHA-256 {digest}, where {file.bytes:,} bytes, {file.sha256} should be ({cause})"


# -- what is in them


def read_vocabulary(
    encoder_json: str | os.PathLike[str], vocab_bpe: str | os.PathLike[str]
) -> tuple[dict[bytes, int], dict[str, int]]:
    """Read a vocabulary in GPT-2's format: the ids of its tokens, in order, and the ids of its special tokens.

    `encoder_json` gives each token its id. `vocab_bpe` gives the merges, one a line, in the order they are
    applied, after a line "#version: ...". Both write bytes in the byte alphabet (alphabet.py). Special tokens,
    such as "<|endoftext|>", are those that no merge makes.

    The id of a token is also the rank of its merge for who encodes, so the two files must agree: the ids are 0 to
    n-1; every byte has one; a merge joins two tokens known by then into a new one; ids grow with the merges; and
    a token is a byte, a merge, or written like <special> or [SPECIAL]. CRLF line ends, a byte order mark, empty
    lines at the end and a missing "#version" are accepted. Raises ValueError with the file, the line, the reason.
    """
    ids_data, merges_data = Path(encoder_json).read_bytes(), Path(vocab_bpe).read_bytes()
    is_gpt2 = not difference(merges_data, VOCAB_BPE)
    if is_gpt2 and not difference(ids_data, ENCODER_JSON):
        return _read_gpt2(merges_data.decode())
    text, ids = _read_ids(Path(encoder_json), ids_data)
    merges = decoded(merges_data, Path(vocab_bpe)).rstrip("\n").split("\n")
    first = 1
    if merges[0].startswith("#version"):  # the first line alone: GPT-2 has merges that begin with "#" as well
        merges, first = merges[1:], 2

    spelled = {character: bytes([byte]) for character, byte in CHARACTER_TO_BYTE.items()}
    for character, byte in spelled.items():
        if character not in ids:
            raise ValueError(f"{encoder_json}, line 1: no id for the byte 0x{byte.hex()}, written {character!r}")
    last_id = -1
    for line, merge in enumerate(merges, first):
        left, _, right = merge.partition(" ")
        id = ids.get(left + right, -1)
        if id <= last_id or left not in spelled or right not in spelled:
            raise ValueError(f"{vocab_bpe}, line {line}: {_why_not(merge, spelled, ids, last_id)}")
        spelled[left + right] = spelled[left] + spelled[right]
        last_id = id

    ranks: dict[bytes, int] = {}
    special_tokens: dict[str, int] = {}
    for id, token in enumerate(sorted(ids, key=ids.__getitem__)):
        if token in spelled:
            ranks[spelled[token]] = id
        elif has_brackets(token):
            special_tokens[token] = id
        else:
            raise ValueError(
                f"{encoder_json}, line {_line_of(token, text)}: no merge makes {token!r} (id {id}), and it is not "
                f"written like <special> or [SPECIAL]: {vocab_bpe} is cut short or of another vocabulary"
            )
    if not is_gpt2:  # whose merges pass: a test looks
        for index in merges_not_told_by_rank(merges, ids):
            raise ValueError(
                f"{vocab_bpe}, line {first + index}: {merges[index]!r} is not what merging by rank would join there, "
                f"so that the ids alone do not tell how to encode with this vocabulary"
            )
    return ranks, special_tokens


def _read_gpt2(vocab_bpe: str) -> tuple[dict[bytes, int], dict[str, int]]:
    """The same for GPT-2's own two files, six times as fast: its ids are the bytes, then the merges, in order."""
    _, _, merges = vocab_bpe.rstrip("\n").partition("\n")
    byte_of = np.full(0x200, 0xFF, np.uint8)  # of each character; 0xFF, which no merge has, for the end of a line
    byte_of[[*map(ord, CHARACTER_TO_BYTE)]] = [*CHARACTER_TO_BYTE.values()]
    characters = np.frombuffer(merges.replace(" ", "").encode("utf-16-le"), "<u2")
    pieces = [bytes([byte]) for byte in BYTES_IN_ID_ORDER]
    pieces += byte_of[characters].tobytes().split(b"\xff")
    return dict(zip(pieces, range(len(pieces)))), {"<|endoftext|>": len(pieces)}


def merges_not_told_by_rank(merges: list[str], ids: dict[str, int]) -> Iterator[int]:
    """The indices of merges whose token an encoder that knows only ranks would make of two other parts.

    Such an encoder joins any two neighbours whose union is a token, whether or not a line of the file joins those
    two. By hand: "b c", "a b", "ab c" make the tokens bc, ab, abc, in this order. In the text "abc" the first
    merge leaves a and bc, which no line joins; but their union is a token, so by rank the result is abc.

    Both ways give the same tokens for every text if they do for the text of each token.
    """
    parts = {merge.replace(" ", ""): tuple(merge.split(" ")) for merge in merges}
    rank = {token: ids[token] for token in parts}

    def meet(left: str, right: str) -> bool:
        """Whether the two are ever neighbours, where a text is just these two: nothing joins bits of both before."""
        while True:
            made_left, made_right = rank.get(left, -1), rank.get(right, -1)
            if made_left > made_right:  # undo the step that was taken last
                step, left = made_left, parts[left][1]
            elif made_right >= 0:
                step, right = made_right + 1, parts[right][0]  # + 1: of equal unions the one on the left goes first
            else:
                return True
            if rank.get(left + right, step) < step:
                return False

    reached = set(CHARACTER_TO_BYTE)  # the others are tokens that no text becomes
    for token, (left, right) in parts.items():
        if left in reached and right in reached and meet(left, right):
            reached.add(token)
    for index, (token, (left, _)) in enumerate(parts.items()):
        for cut in range(1, len(token)):
            first, second = token[:cut], token[cut:]
            if first != left and first in reached and second in reached and meet(first, second):
                yield index


def _why_not(merge: str, known: Container[str], ids: dict[str, int], last_id: int) -> str:
    parts = merge.split(" ")
    if len(parts) != 2 or not all(parts):
        return f"{merge!r} should be two tokens with one space between them"
    for part in parts:
        for character in part:
            if character not in CHARACTER_TO_BYTE:
                return f"{character!r} in {merge!r} is not in the byte alphabet"
        if part not in known:
            return f"{part!r} in {merge!r} is made by no line before: lines are missing or swapped"
    token = "".join(parts)
    if token in known:
        return f"{merge!r} makes {token!r} a second time"
    if token not in ids:
        return f"{merge!r} makes {token!r}, which has no id: it is cut short or of another vocabulary"
    return f"{merge!r} makes id {ids[token]} after id {last_id}: ids must grow in the order of the merges"


def read_text(path: Path) -> str:
    """The text of a file, as `decoded`."""
    return decoded(path.read_bytes(), path)


def decoded(data: bytes, path: Path) -> str:
    """The text of a file in UTF-8, line ends as newlines. ValueError with the line if it is empty or not UTF-8."""
    if not data.strip():
        raise ValueError(f"{path}, line 1: the file is empty ({len(data)} bytes)")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise ValueError(f"{path}, line {line}: not UTF-8 (byte {error.start:,} is 0x{byte:02x})") from None


def _read_ids(path: Path, data: bytes) -> tuple[str, dict[str, int]]:
    """The text of an encoder.json and what it says: an id for each token, 0 to n-1, each once."""
    text = decoded(data, path)
    if not text.lstrip().startswith("{"):
        raise ValueError(f"{path}, line 1: begins with {text[:20]!r}, where a JSON object of tokens and ids should be")
    try:
        pairs = json.loads(text, object_pairs_hook=list)  # pairs, not a dict, to see a token that stands there twice
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}, at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise ValueError(f"{path}, line 1: {error}") from None
    ids: dict[str, int] = dict(pairs)
    if set(map(type, ids.values())) == {int} and sorted(ids.values()) == list(range(len(pairs))):
        return text, ids

    if not pairs:
        raise ValueError(f"{path}, line 1: an object without a token")
    token, reason = _why_not_ids(pairs)
    raise ValueError(f"{path}, line {_line_of(token, text)}: {reason}")


def _why_not_ids(pairs: list[tuple[str, int]]) -> tuple[str, str]:
    """The first token that is wrong, and what is wrong with it."""
    owners: dict[int, str] = {}
    seen = set()
    for token, id in pairs:
        if token in seen:
            return token, f"token {token!r} stands there twice"
        if type(id) is not int or not 0 <= id < len(pairs):
            shown = "[...]" if isinstance(id, list) else f"{id!r:.60}"  # pairs, of an object; it may be long, or deep
            return token, f"id {shown} of {token!r}; ids are the integers 0 to {len(pairs) - 1}, each once"
        if id in owners:
            return token, f"id {id} of {token!r} is that of {owners[id]!r} as well"
        seen.add(token)
        owners[id] = token
    raise AssertionError("every token is right")


def _line_of(token: str, text: str) -> int:
    """The last line of a JSON text on which a token stands as a string."""
    at = max(text.rfind(json.dumps(token, ensure_ascii=ascii)) for ascii in (True, False))
    return text.count("\n", 0, max(at, 0)) + 1
