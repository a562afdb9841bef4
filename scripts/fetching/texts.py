"""The texts that training and benchmarks run on: English, code, one in 500 languages; fetched into the cache folder.

Each is made of the files of a package, in the order of their paths, so that it is the same on every machine.
"""
import html
import re
import sys

import fetching
from bpe import files
from bpe.manifest import SETS, File
from fetching import packages

SUFFIX = {"english": ".txt", "code": ".py", "languages": ".html"}


def load(name: str, megabytes: float | None = None) -> str:
    """The text called `name`, or its first `megabytes` (10**6 bytes of UTF-8, cut between characters).

    - "english": State of the Union addresses, 1790 to today, 12.2 MB
    - "code": the source of SymPy, 26 MB of Python
    - "languages": the Universal Declaration of Human Rights in 500 languages and every script, 7.1 MB

    Raises ValueError if there is no such text or it is shorter, commands.Failed if it cannot be fetched.
    """
    if name not in SUFFIX:
        raise ValueError(f"no text is called {name!r}; there are {', '.join(SUFFIX)}")
    (file,) = SETS[name]
    parts = packages.members(kept(file), lambda path: path.endswith(SUFFIX[name]) and ".dist-info/" not in path)
    text = "\n".join(data.decode("utf-8") for _, data in parts)
    if name == "languages":
        text = without_markup(text)
    if megabytes is None:
        return text
    data = text.encode()
    size = round(megabytes * 1_000_000)
    if size > len(data):
        raise ValueError(f"{name!r} is {len(data) / 1e6:.1f} MB long, not {megabytes} MB")
    return data[:size].decode(errors="ignore")  # the cut may be inside a character; nothing else is ignored


def kept(file: File) -> bytes:
    """The bytes of a file of the manifest, fetched if need be and kept in the cache folder if that can be written."""
    path = files.cache_folder() / file.name
    data, origin = fetching.Fetcher().fetch(file, path)
    if origin != "already there":
        try:
            fetching.write(path, data)
        except OSError as error:
            print(f"{path} cannot be written ({error.strerror}); fetched again next time", file=sys.stderr)
    return data


def without_markup(page: str) -> str:
    body = re.sub(r"<(head|script|style)\b.*?</\1>|<[^>]*>", "", page, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", html.unescape(body))
