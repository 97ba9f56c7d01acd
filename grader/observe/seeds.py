"""Seeds: secret, yet replayable. HMAC(course secret, submission hash, case); the case is probe and parameters, without inputs."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

import numpy as np

from grader.errors import UsageError
from grader.records import Json, canonical

PUBLISHED_SECRET = b"public cases are no secret"
SECRET_FILE = "GRADER_SECRET_FILE"  # an instructor's own, for the hidden cases
NUM_SECRET_BYTES_LEAST = 16


def secret_of(hidden: bool) -> bytes:
    """The published secret for public cases; for hidden ones the instructor's, if the environment names its file."""
    path = os.environ.get(SECRET_FILE)
    if not hidden or not path:
        return PUBLISHED_SECRET
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as unreadable:
        raise UsageError(f"{SECRET_FILE} names {path}, which can't be read: {unreadable.strerror}") from unreadable
    if len(secret) < NUM_SECRET_BYTES_LEAST:
        raise UsageError(
            f"{path} holds {len(secret)} bytes; a secret needs at least {NUM_SECRET_BYTES_LEAST} (try: head -c 32 /dev/urandom | base64)"
        )
    return secret


def seed_of(secret: bytes, submission_hash: str, case: Json, purpose: str) -> int:
    """A 63-bit seed. Two purposes of one case have unrelated seeds."""
    words = "\0".join([purpose, submission_hash, canonical(case)]).encode()
    return int.from_bytes(hmac.new(secret, words, hashlib.sha256).digest()[:8], "little") >> 1


def generator(secret: bytes, submission_hash: str, case: Json) -> np.random.Generator:
    """The generator that makes a case's inputs; nothing in the rank knows its seed."""
    return np.random.default_rng(seed_of(secret, submission_hash, case, "inputs"))
