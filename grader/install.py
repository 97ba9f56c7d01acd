"""Makes .venv for this checkout: `python3 grader/install.py`, which is what `make setup` runs. Standard library only.

Can be read by Python 3.8, so that an old interpreter gets a sentence and not a SyntaxError.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's own; the place of Linux builds without CUDA
GB = 10**9
EXTRAS = "lm,dev" if (ROOT / "tests/grader").is_dir() else "lm"  # students get no tests of the grader
NEEDED_BYTES = {"linux-cpu": 3 * GB, "linux-nvidia": 12 * GB, "macos": 3 * GB}  # .venv and, while it is made, pip's downloads
STAMP = "installed.json"  # written last: everything that it names is there
UNFINISHED = "unfinished"  # there while .venv is being changed; found at the start, it tells of a run that was killed
CALLER, COURSE, MACHINE = 2, 3, 4  # exit codes of the grader, by who can mend it

# What pip's last words mean: who can mend it, what was seen, what to try. The first that matches is told.
MEANINGS = {
    r"Errno 28|No space left": (
        MACHINE,
        "The disk is full.\nTry: free some space here and in the temporary folder (TMPDIR may name another), then make setup again.",
    ),
    r"CERTIFICATE_VERIFY_FAILED": (
        MACHINE,
        "A server's certificate was not accepted, as happens behind a company's proxy.\nTry: PIP_CERT=/path/to/its.pem make setup",
    ),
    r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|Max retries exceeded|ConnectionResetError"
    r"|ProtocolError|IncompleteRead|Failed to establish|name resolution|getaddrinfo|Connection aborted|Remote end closed": (
        MACHINE,
        "The network could not be reached, or broke off; it is needed this once.\n"
        "Try: make setup again when there is one (what was fetched is kept); behind a proxy: https_proxy=http://... make setup",
    ),
    r"No matching distribution found for (?P<what>\S+)": (
        MACHINE,
        "pip found no build of {what} for Python {python} on {machine}.\n"
        "Try: another Python of 3.11 to 3.13 (make setup PYTHON=...); on Linux, x86-64 or arm64 with glibc 2.28 or newer is needed.",
    ),
    r"ResolutionImpossible|conflicting dependencies": (
        COURSE,
        "pip can't meet the course's pinned versions together: they contradict each other, or a setting or a mirror of pip's.\n"
        "Try: pip config list; if it shows neither a constraint nor an index of your own, the course is wrong: please report it.",
    ),
}


class SetupError(Exception):
    """What stopped the set-up, in words for the person at the keyboard, and whose turn it is."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- before anything is touched --------------------------------------------------------------------------------------
def check_python(version: tuple[int, int]) -> None:
    """SetupError unless the course runs on this Python."""
    if not OLDEST <= version <= NEWEST:
        seen = f"This is Python {version[0]}.{version[1]} ({sys.executable}); the course needs 3.11, 3.12 or 3.13."
        raise SetupError(CALLER, f"{seen}\nTry: make setup PYTHON=/path/to/python3.12   (python.org and every package manager have one)")


def check_modules(version: tuple[int, int]) -> None:
    """SetupError if this Python came without venv or pip, as Debian's and Ubuntu's do."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(
            CALLER,
            f"{sys.executable} came without {' and '.join(missing)}.\n"
            f"Try: sudo apt install python{version[0]}.{version[1]}-venv   (Debian, Ubuntu), or another Python: make setup PYTHON=...",
        )


def check_disk(free_bytes: int, needed_bytes: int, where: Path) -> None:
    """SetupError if the environment would not fit."""
    if free_bytes < needed_bytes:
        raise SetupError(
            MACHINE,
            f"{free_bytes / GB:.1f} GB are free in {where}, and the environment needs {needed_bytes / GB:.0f} GB.\n"
            "Try: free some (pip cache purge may give several GB), or clone the course to a larger disk.",
        )


def has_nvidia_driver() -> bool:
    """Whether a driver answers: an nvidia-smi alone may come with a container image."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    return shutil.which("nvidia-smi") is not None and run(["nvidia-smi", "-L"], quiet=True)[0] == 0


def choose_platform(system: str, nvidia: bool) -> str:
    """The name of the platform's constraints file, without its ending; SetupError where the course doesn't run."""
    if system == "Linux":
        return "linux-nvidia" if nvidia else "linux-cpu"
    if system == "Darwin":
        return "macos"
    raise SetupError(CALLER, f"The course runs on Linux and macOS; this is {system or 'unknown'}.\nTry: on Windows, WSL 2 (wsl --install).")


# --- what is wanted, and what is there -------------------------------------------------------------------------------
def fingerprint(root: Path, name: str) -> str:
    """SHA-256 over all that decides what gets installed: dependencies, constraints, and the folder that is linked to."""
    import tomllib  # Python 3.11

    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    constraints = [(root / "grader/constraints" / file).read_text(encoding="utf-8") for file in ("common.txt", f"{name}.txt")]
    parts = [table["project"], table["build-system"], constraints, name, str(root)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def stamped(venv: Path) -> dict[str, str]:
    """The stamp's text, empty if there is none or it can't be read."""
    try:
        return dict(json.loads((venv / STAMP).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def python_of(venv: Path) -> str:
    """The environment's interpreter."""
    return str(venv / "bin" / "python")


def pip_of(venv: Path) -> list[str]:
    """The environment's pip, isolated: a stray random.py in the current folder, or on PYTHONPATH, must not break it."""
    return [python_of(venv), "-I", "-m", "pip"]


def version_inside(venv: Path) -> tuple[int, int] | None:
    """(major, minor) of the environment's Python; None if it doesn't run."""
    try:
        major, minor = subprocess.check_output([python_of(venv), "-Ic", "import sys; print(*sys.version_info[:2])"]).split()
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return int(major), int(minor)


def reason_to_remake(venv: Path, name: str) -> str:
    """Why what lies at `venv` is of no use, "" if it can be kept; SetupError if it isn't ours to delete."""
    if not venv.exists():
        return "there is none yet"
    if (venv / UNFINISHED).exists():
        return "the last set-up was stopped half-way"
    if not (venv / "pyvenv.cfg").exists():
        raise SetupError(CALLER, f"{venv} is there and is no Python environment.\nTry: move it away, then make setup again.")
    version = version_inside(venv)
    if version is None:
        return "its Python no longer runs"
    if not OLDEST <= version <= NEWEST:
        seen = f"{venv} is an environment of Python {version[0]}.{version[1]}; the course needs 3.11 to 3.13."
        raise SetupError(CALLER, f'{seen}\nTry: rm -r "{venv}", then make setup again.')
    if stamped(venv).get("platform", name) != name:
        return f"it was made for {stamped(venv)['platform']}"
    return ""


# --- making it -------------------------------------------------------------------------------------------------------
def run(command: list[str], quiet: bool = False) -> tuple[int, str]:
    """Run a command without standard input; its exit status and its standard error, of which `quiet` shows nothing.

    What pip installs is always shown: by its own bars on a terminal, elsewhere by the packages' names.
    """
    installs = "install" in command
    past = {"PIP_TARGET", "PIP_PREFIX", "PIP_USER"}  # would send packages past the environment
    surroundings = {key: value for key, value in os.environ.items() if key not in past} | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    out = subprocess.PIPE if installs and not sys.stdout.isatty() else subprocess.DEVNULL if quiet and not installs else None
    kept = []
    # With close_fds=False pip too holds the folder's lock: it may outlive this process.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace",
                          env=surroundings, close_fds=False) as process:  # fmt: skip
        assert process.stderr is not None
        teller = threading.Thread(target=name_packages, args=(process.stdout or (),))
        teller.start()
        for line in process.stderr:
            kept.append(line)
            if not quiet:
                sys.stderr.write("" if line.startswith("WARNING") else line)
                sys.stderr.write("No answer from the network; trying again ...\n" if "Retrying" in line else "")
        teller.join()
    return process.returncode, "".join(kept)


def name_packages(lines: Iterable[str]) -> None:
    """A word for each package that pip speaks of, on a line that grows: something moves, and no log is flooded."""
    is_begun = False
    for line in lines:
        first, _, rest = line.strip().partition(" ")
        if first in ("Collecting", "Processing"):  # by name, or a file that is at hand
            word = re.split(r"[^\w.-]|-\d", rest.rpartition("/")[2])[0]
        elif line.startswith("Installing collected packages:"):
            count = rest.count(",") + 1
            word = f"{'- ' * is_begun}unpacking {count} package{'s' * (count != 1)}"
        else:
            continue
        sys.stdout.write(f"{' ' if is_begun else '  '}{word}")
        sys.stdout.flush()
        is_begun = True
    sys.stdout.write("\n" if is_begun else "")


def explain(said: str) -> SetupError:
    """What pip's last words mean, who can mend it, and how."""
    for pattern, (exit_code, meaning) in MEANINGS.items():
        if found := re.search(pattern, said):
            words = {"what": "", "python": platform.python_version(), "machine": platform.machine(), **found.groupdict()}
            return SetupError(exit_code, meaning.format(**words))
    tail = "\n".join(said.strip().splitlines()[-5:])
    return SetupError(MACHINE, f"A step failed; its last words:\n{tail}\nTry: make setup again; if it says the same, report these lines.")


def pip(venv: Path, constraints: Path, *arguments: str, quiet: bool = False) -> str:
    """Install under `constraints`; what pip said on standard error if it failed, "" if it didn't."""
    status, said = run([*pip_of(venv), "install", "--no-input", "-c", str(constraints), *arguments], quiet)
    return said or f"exit status {status}" if status else ""


def make_venv(venv: Path, reason: str) -> None:
    """A new, empty environment in place of whatever was there."""
    print(f"Making .venv with Python {platform.python_version()} ({reason}).", flush=True)
    print("This once, it takes one to two minutes; on a slow or busy machine or network two to ten, and more with CUDA.", flush=True)
    venv.mkdir(exist_ok=True)
    (venv / UNFINISHED).touch()
    for path in venv.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != UNFINISHED:
            path.unlink()
    if (ended := run([sys.executable, "-I", "-m", "venv", str(venv)]))[0]:
        raise explain(ended[1])


def fill_venv(venv: Path, root: Path, name: str) -> None:
    """Install torch, then the project, editable, with all that it needs."""
    constraints, begun_s = root / "grader/constraints" / f"{name}.txt", time.monotonic()
    if run([*pip_of(venv), "--version"], quiet=True)[0]:
        run([python_of(venv), "-I", "-m", "ensurepip"])
    if name == "linux-cpu":
        print("Installing PyTorch without CUDA (about 200 MB) ...", flush=True)
        # Alone, so that the second index is asked for nothing else; first without it, for where pip knows such a build already;
        # and with its version, so that pip says plainly if there is none.
        alone = ["--no-deps", *re.findall(r"^torch==\S+", constraints.read_text(encoding="utf-8"), re.MULTILINE)]
        known = not pip(venv, constraints, "--retries", "0", *alone, quiet=True)
        if not known and (said := pip(venv, constraints, "--extra-index-url", CPU_INDEX, *alone)):
            raise explain(said)
    print(f"Installing the grader and what it needs ({time.monotonic() - begun_s:.0f} s so far) ...", flush=True)
    for arguments in (["--no-deps", "setuptools"], ["--no-build-isolation", "-e", f"{root}[{EXTRAS}]"]):
        if said := pip(venv, constraints, *arguments):
            raise explain(said)


def test_itself(venv: Path, root: Path) -> None:
    """What the environment offers, as a table; SetupError if grading would not work."""
    status = subprocess.run([python_of(venv), "-m", "grader.cli", "doctor"], cwd=str(root), check=False).returncode
    if status:
        blame = status if status in (CALLER, COURSE) else MACHINE
        raise SetupError(blame, "The self-test failed; what it printed above says what to do. Then: make setup")


def install(root: Path, name: str) -> None:
    """Bring .venv to what the checkout asks for: nothing if it is there, an update if it can be kept, a new one otherwise."""
    venv, begun = root / ".venv", time.monotonic()
    wanted, reason = fingerprint(root, name), reason_to_remake(venv, name)
    if not reason and stamped(venv).get("fingerprint") == wanted:
        os.utime(venv / STAMP)
        return
    check_modules(sys.version_info[:2])
    if reason:
        check_disk(shutil.disk_usage(root).free, NEEDED_BYTES[name], root)
        make_venv(venv, reason)
    (venv / STAMP).unlink(missing_ok=True)
    (venv / UNFINISHED).touch()
    try:
        fill_venv(venv, root, name)
    finally:
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            (venv / UNFINISHED).unlink(missing_ok=True)  # pip undoes its own failures; only being killed leaves halves behind
    print(f"Installed in {time.monotonic() - begun:.0f} s. Self-test:", flush=True)
    test_itself(venv, root)
    (venv / STAMP).write_text(json.dumps({"fingerprint": wanted, "platform": name}) + "\n", encoding="utf-8")


def wait_for_turn(root: Path) -> None:
    """Hold the checkout until this process and its pip end, so that two set-ups at once run one after the other."""
    import fcntl  # not on Windows, which has been refused by now

    holder = os.open(str(root), os.O_RDONLY)
    os.set_inheritable(holder, True)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another set-up is running in this folder; waiting for it ...", flush=True)
        fcntl.flock(holder, fcntl.LOCK_EX)
    except OSError:
        pass  # a network folder without locks


def main() -> int:
    """Exit code: 0 ready; 2 the caller can mend it; 3 the course is wrong; 4 the machine is; 130 stopped from the keyboard."""
    try:
        check_python(sys.version_info[:2])
        name = choose_platform(platform.system(), has_nvidia_driver())
        wait_for_turn(ROOT)
        install(ROOT, name)
    except SetupError as error:
        print(f"\nSet-up stopped. {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nSet-up stopped by you; make setup starts it afresh.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
