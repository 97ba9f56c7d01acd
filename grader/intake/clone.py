"""A git repository without a working tree (`git clone --bare`): what its HEAD holds. A clone with files is an ordinary folder."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from grader.errors import UsageError
from grader.intake.bag import NUM_ENTRIES_LIMIT, Bag, Content, Read, is_litter, refusing, too_large, with_folders

# Somebody else's repository: none of its settings, no helper program, no network.
QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C",
}  # fmt: skip
LINK, FILES = "120000", ("100644", "100755")


def is_bare_repository(path: Path) -> bool:
    """Whether the folder is git's own and nothing else."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


def read_repository(path: Path) -> Bag:
    """The files of HEAD. UsageError if git is not there or the repository has no commit."""
    listing = _git(path, "ls-tree", "-r", "-z", "-l", "--full-tree", "HEAD")
    entries: dict[str, Read] = {}
    for line in listing.decode("utf-8", "replace").split("\0")[:NUM_ENTRIES_LIMIT]:
        facts, _, name = line.partition("\t")
        if not name or is_litter(name):
            continue
        mode, _kind, blob, num_bytes = facts.split()
        if mode in FILES:
            entries[name] = partial(_read_blob, path, blob, name, int(num_bytes))
        else:
            what = "a link, and links are not followed" if mode == LINK else "another repository, which is not looked into"
            entries[name] = refusing(name, f"is {what}: commit the file itself")
    return Bag(path.name, with_folders(entries))


def _read_blob(path: Path, blob: str, name: str, num_bytes: int, limit_bytes: int) -> Content:
    if num_bytes > limit_bytes:
        return None, too_large(name, limit_bytes)
    return _git(path, "cat-file", "blob", blob), ""


def _git(path: Path, *arguments: str) -> bytes:
    command = ["git", f"--git-dir={path}", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        ended = subprocess.run(command, env=os.environ | QUIET, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise UsageError(f"{path} is a git repository without files, and there is no git here: hand in a clone of it.") from None
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else "git gave no reason"
        raise UsageError(f"{path} is a git repository whose HEAD can't be read: {why}. Commit once, or hand in the files themselves.")
    return ended.stdout
