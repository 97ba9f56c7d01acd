"""Download a file so that an interruption costs only what had not yet arrived, and nothing unverified gets its final name."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tqdm import tqdm

CHUNK_BYTES = 1 << 20
TIMEOUT_S = 30
NUM_ATTEMPTS = 4


class Unreachable(OSError):
    """The network or the server did not give the file."""


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, sha256: str | None, what: str) -> str:
    """Return the file's SHA-256; ValueError if another was expected."""
    seen = sha256_of(path)
    if sha256 is not None and seen != sha256:
        raise ValueError(f"{what}: {path} has sha256 {seen}, expected {sha256}. It is damaged or another version; delete it and try again")
    return seen


def download(url: str, path: Path, sha256: str | None) -> str:
    """Bring `url` to `path` unless it is there, continuing a partial download; return its SHA-256.

    Raises Unreachable without network, ValueError if the bytes aren't the expected ones.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        for attempt in range(1, NUM_ATTEMPTS + 1):
            try:
                continue_download(url, partial)
                break
            except (OSError, http.client.HTTPException) as error:
                # What has arrived is kept, so a new attempt goes on from there. A refusal won't change by asking again.
                if attempt == NUM_ATTEMPTS or isinstance(error, urllib.error.HTTPError | urllib.error.URLError):
                    raise Unreachable(f"{urlsplit(url).hostname} did not give {path.name}: {getattr(error, 'reason', error)}") from error
        try:
            verify(partial, sha256, url)
        except ValueError:
            partial.unlink()  # nothing can be continued from wrong bytes
            raise
        os.replace(partial, path)
    return verify(path, sha256, url)


def continue_download(url: str, partial: Path) -> None:
    """Append to `partial` what is missing; ConnectionError if the server stops before the end."""
    present_bytes = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={present_bytes}-"} if present_bytes else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is here already
        raise
    with response:
        continues = response.status == http.HTTPStatus.PARTIAL_CONTENT
        start_bytes = present_bytes if continues else 0  # a server that ignores Range sends everything again
        length = response.headers.get("Content-Length")
        total_bytes = start_bytes + int(length) if length is not None else None
        with partial.open("ab" if continues else "wb") as file, progress(partial.stem, start_bytes, total_bytes) as bar:
            while chunk := response.read(CHUNK_BYTES):
                file.write(chunk)
                bar.update(len(chunk))
            arrived_bytes = file.tell()
    if total_bytes is not None and arrived_bytes < total_bytes:
        raise ConnectionError(f"the connection ended after {arrived_bytes:,} of {total_bytes:,} bytes")


def progress(name: str, start_bytes: int, total_bytes: int | None) -> tqdm[None]:
    """Return a bar in bytes that shows on a terminal only."""
    return tqdm(desc=name, initial=start_bytes, total=total_bytes, unit="B", unit_scale=True, disable=None)
