"""The set-up: what it refuses, what it asks pip for, and what it leaves behind. pip itself is played; .ci/run uses the real one."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from grader import install

REPOSITORY = Path(__file__).resolve().parents[2]
CONSTRAINTS = REPOSITORY / "grader" / "constraints"


class PlayedPip:
    """Stands for `install.run`: makes an environment when venv is asked for, and answers pip as told."""

    def __init__(self, answer: Callable[[Sequence[str]], tuple[int, str]] = lambda command: (0, "")) -> None:
        self.commands: list[list[str]] = []
        self.answer = answer

    def __call__(self, command: list[str], quiet: bool = False) -> tuple[int, str]:
        self.commands.append(command)
        if command[2:4] == ["-m", "venv"]:
            venv = Path(command[4])
            (venv / "bin").mkdir()
            (venv / "bin" / "python").symlink_to(sys.executable)
            (venv / "pyvenv.cfg").touch()
        return self.answer(command)

    def installs(self) -> list[str]:
        """The pip commands that install something, one line each."""
        return [" ".join(command) for command in self.commands if "install" in command]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up reads of a checkout, in a folder with a space and an accent in its name."""
    root = tmp_path / "à côté"
    (root / "grader" / "constraints").mkdir(parents=True)
    (root / "pyproject.toml").write_bytes((REPOSITORY / "pyproject.toml").read_bytes())
    for file in CONSTRAINTS.iterdir():
        (root / "grader" / "constraints" / file.name).write_bytes(file.read_bytes())
    return root


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedPip:
    """A pip that always succeeds, with a self-test that passes."""
    pip = PlayedPip()
    monkeypatch.setattr(install, "run", pip)
    monkeypatch.setattr(install, "test_itself", lambda venv, root: None)
    return pip


# --- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 14)])
def test_a_python_that_torch_has_no_builds_for_is_refused(version: tuple[int, int]) -> None:
    """The sentence names the version that was seen and how to name another; the caller can mend it."""
    with pytest.raises(install.SetupError, match=rf"(?s)Python {version[0]}\.{version[1]} .*make setup PYTHON=") as refused:
        install.check_python(version)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_every_python_of_the_course_is_accepted(version: tuple[int, int]) -> None:
    """3.11 to 3.13 pass without a word."""
    install.check_python(version)


def test_the_source_is_readable_by_an_old_python_and_imports_nothing_but_the_standard_library() -> None:
    """Whoever starts it has nothing installed yet, and perhaps a Python that is too old: it must reach its own sentence."""
    tree = ast.parse(Path(install.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_python_without_venv_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's python3 has no ensurepip until python3-venv is there: the first thing that a student on Ubuntu meets."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(install.SetupError, match=r"without venv and ensurepip.\nTry: sudo apt install python3\.11-venv") as refused:
        install.check_modules((3, 11))
    assert refused.value.exit_code == 2


def test_a_disk_too_small_is_told_before_anything_is_fetched(tmp_path: Path) -> None:
    """Both figures are named: what is free and what is needed."""
    with pytest.raises(install.SetupError, match=r"1\.5 GB are free .* needs 3 GB") as refused:
        install.check_disk(1_500_000_000, install.NEEDED_BYTES["linux-cpu"], tmp_path)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    ("system", "nvidia", "expected"), [("Linux", False, "linux-cpu"), ("Linux", True, "linux-nvidia"), ("Darwin", False, "macos")]
)
def test_each_platform_has_its_constraints(system: str, nvidia: bool, expected: str) -> None:
    """Every platform's file is there, and the disk that it needs is known."""
    name = install.choose_platform(system, nvidia)
    assert name == expected
    assert (CONSTRAINTS / f"{name}.txt").exists()
    assert name in install.NEEDED_BYTES


def test_windows_is_sent_to_its_linux() -> None:
    """The grader forks; on Windows the course runs in WSL."""
    with pytest.raises(install.SetupError, match=r"this is Windows.\nTry: on Windows, WSL 2"):
        install.choose_platform("Windows", False)


def test_a_folder_that_is_no_environment_is_left_alone(checkout: Path, played: PlayedPip) -> None:
    """A .venv with something else in it belongs to somebody: it is neither filled nor emptied."""
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "thesis.tex").touch()
    with pytest.raises(install.SetupError, match=r"no Python environment.\nTry: move it away"):
        install.install(checkout, "linux-cpu")
    assert [path.name for path in (checkout / ".venv").iterdir()] == ["thesis.tex"]


# --- pip's failures in words -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "exit_code", "words"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", 4, "disk is full"),
        ("WARNING: Retrying (...) after connection broken by 'SSLError(... CERTIFICATE_VERIFY_FAILED ...)'", 4, "PIP_CERT"),
        ("WARNING: Retrying (...) after connection broken by 'NewConnectionError(...)'\nERROR: ResolutionImpossible", 4, "network"),
        ("urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(...): Read timed out.", 4, "network"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", 4, "no build of torch==2.13.0+cpu for Python"),
        ("ERROR: Cannot install a and b because these package versions have conflicting dependencies.", 3, "contradict"),
        ("line 1\nSegmentation fault", 4, "line 1\nSegmentation fault"),
    ],
)
def test_a_failure_of_pip_is_told_in_words(said: str, exit_code: int, words: str) -> None:
    """A broken network comes before what it brings about: pip calls it a conflict in its last line."""
    error = install.explain(said)
    assert words in str(error)
    assert "Try: " in str(error)
    assert error.exit_code == exit_code


def test_something_moves_where_pip_can_draw_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    """Into a file go the packages' names on one line, as they come, and nothing else. What is quiet hides errors only."""
    said = ["Looking in links: x", "Collecting torch==2.13.0+cpu", "  Downloading torch.whl (190 MB)", "Collecting ml_dtypes<1,>=0.5",
            "Processing ./wheels/import_linter-2.1-py3.whl", "Collecting pytest-xdist~=3.6", "Collecting attrs (from x)",
            "Requirement already satisfied: numpy", "Installing collected packages: ml_dtypes, torch", "Successfully"]  # fmt: skip
    script = f"import sys; print({chr(10).join(said)!r}); sys.stderr.write('ERROR: no')"
    for quiet in (False, True):
        assert install.run([sys.executable, "-c", script, "install"], quiet) == (0, "ERROR: no")
        told = capsys.readouterr()
        assert told.out == "  torch ml_dtypes import_linter pytest-xdist attrs - unpacking 2 packages\n"
        assert told.err == ("" if quiet else "ERROR: no")
    alone = "print('Installing collected packages: torch')"
    assert install.run([sys.executable, "-c", alone, "install"], True) == (0, "") and capsys.readouterr().out == "  unpacking 1 package\n"
    assert install.run([sys.executable, "-c", "print('24.1')", "--version"], True) == (0, "") and not capsys.readouterr().out


def test_how_long_it_takes_is_said_before_pip_is_asked(checkout: Path, played: PlayedPip, capsys: pytest.CaptureFixture[str]) -> None:
    """A new environment says so before pip is asked for anything; one that is there does not."""

    def answer(command: Sequence[str]) -> tuple[int, str]:
        told.append(capsys.readouterr().out)
        return 0, ""

    told: list[str] = []
    played.answer = answer
    install.install(checkout, "linux-cpu")
    assert "two to ten" in told[0]
    install.install(checkout, "linux-cpu")
    assert not capsys.readouterr().out.count("two to ten")


# --- what is asked of pip --------------------------------------------------------------------------------------------
def test_a_machine_without_a_gpu_never_gets_cuda() -> None:
    """The pin's local version "+cpu" can't be met by the default build, wherever pip looks."""
    pins = re.findall(r"^torch==(\S+)", (CONSTRAINTS / "linux-cpu.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert [pin.partition("+")[2] for pin in pins] == ["cpu"]


def test_the_second_index_is_not_asked_where_pip_finds_torch_by_itself(checkout: Path, played: PlayedPip) -> None:
    """On a machine with a wheel or a mirror of its own, an index that can't be reached costs nothing."""
    install.install(checkout, "linux-cpu")
    assert not [line for line in played.installs() if install.CPU_INDEX in line]
    assert "--retries 0" in played.installs()[0]


def test_the_second_index_is_asked_for_torch_alone(checkout: Path, played: PlayedPip) -> None:
    """All other packages come from where the user's pip gets them."""
    played.answer = lambda command: (1, "ERROR: No matching distribution found") if "--retries" in command else (0, "")
    install.install(checkout, "linux-cpu")
    (asked,) = [line for line in played.installs() if install.CPU_INDEX in line]
    assert re.search(r"--no-deps torch==\S+\+cpu$", asked)


@pytest.mark.parametrize("name", ["linux-nvidia", "macos"])
def test_other_platforms_get_the_default_build(checkout: Path, played: PlayedPip, name: str) -> None:
    """With an NVIDIA driver, or on macOS, torch comes with the project's other dependencies."""
    install.install(checkout, name)
    assert not [line for line in played.installs() if install.CPU_INDEX in line or " torch" in line]
    assert f"{name}.txt" in played.installs()[-1]


# --- what is left behind ---------------------------------------------------------------------------------------------
def test_a_second_set_up_runs_nothing(checkout: Path, played: PlayedPip) -> None:
    """The stamp says that all is there."""
    install.install(checkout, "linux-cpu")
    played.commands.clear()
    install.install(checkout, "linux-cpu")
    assert played.commands == []


def test_a_changed_constraint_updates_the_environment_in_place(checkout: Path, played: PlayedPip) -> None:
    """pip runs again, and what else is in the environment stays."""
    install.install(checkout, "linux-cpu")
    (checkout / ".venv" / "kept").touch()
    played.commands.clear()
    with (checkout / "grader" / "constraints" / "common.txt").open("a", encoding="utf-8") as file:
        file.write("numpy<3\n")
    install.install(checkout, "linux-cpu")
    assert played.installs()
    assert (checkout / ".venv" / "kept").exists()


def test_a_changed_lint_rule_installs_nothing(checkout: Path, played: PlayedPip) -> None:
    """Only what decides about packages counts: pulling a new lint rule must not need a network."""
    install.install(checkout, "linux-cpu")
    played.commands.clear()
    with (checkout / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.something]\nlevel = 1\n")
    install.install(checkout, "linux-cpu")
    assert played.commands == []


def test_an_environment_left_half_way_is_made_again(checkout: Path, played: PlayedPip) -> None:
    """A run that was killed leaves its mark; what it left beside the mark can't be trusted."""

    def killed(command: Sequence[str]) -> tuple[int, str]:
        if "-e" in command:
            raise KeyboardInterrupt
        return 0, ""

    played.answer = killed
    with pytest.raises(KeyboardInterrupt):
        install.install(checkout, "linux-cpu")
    half = checkout / ".venv" / "lib" / "half a package"
    half.mkdir(parents=True)
    assert not (checkout / ".venv" / install.STAMP).exists()

    played.answer = lambda command: (0, "")
    install.install(checkout, "linux-cpu")
    assert not half.exists()
    assert sorted(path.name for path in (checkout / ".venv").iterdir()) == ["bin", install.STAMP, "pyvenv.cfg"]


def test_a_failed_update_keeps_the_environment(checkout: Path, played: PlayedPip) -> None:
    """pip undoes its own failures: a student on a train who pulled a new pin goes on with the old packages."""
    install.install(checkout, "linux-cpu")
    (checkout / ".venv" / "kept").touch()
    (checkout / "grader" / "constraints" / "common.txt").open("a", encoding="utf-8").write("numpy<3\n")
    played.answer = lambda command: (1, "NewConnectionError") if "install" in command else (0, "")
    for _ in range(2):
        with pytest.raises(install.SetupError, match="network"):
            install.install(checkout, "linux-cpu")
    assert (checkout / ".venv" / "kept").exists()


def test_an_environment_for_another_platform_is_made_again(checkout: Path, played: PlayedPip) -> None:
    """torch 2.13.0+cpu also satisfies torch==2.13.0: after a driver was installed, pip would keep the build without CUDA."""
    install.install(checkout, "linux-cpu")
    (checkout / ".venv" / "old").touch()
    install.install(checkout, "linux-nvidia")
    assert not (checkout / ".venv" / "old").exists()


def test_an_environment_whose_python_is_gone_is_made_again(checkout: Path, played: PlayedPip) -> None:
    """An upgrade of the system's Python leaves a dangling link."""
    install.install(checkout, "linux-cpu")
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(checkout / "gone")
    install.install(checkout, "linux-cpu")
    assert python.exists()


def test_the_stamp_is_written_only_after_the_self_test(checkout: Path, played: PlayedPip, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that can't grade is never called ready."""

    def fails(venv: Path, root: Path) -> None:
        raise install.SetupError(4, "no")

    monkeypatch.setattr(install, "test_itself", fails)
    with pytest.raises(install.SetupError, match="no"):
        install.install(checkout, "linux-cpu")
    assert not (checkout / ".venv" / install.STAMP).exists()


def test_the_stamp_names_its_platform(checkout: Path, played: PlayedPip) -> None:
    """What the next run compares with."""
    install.install(checkout, "macos")
    assert json.loads((checkout / ".venv" / install.STAMP).read_text(encoding="utf-8"))["platform"] == "macos"


def test_two_set_ups_take_turns(tmp_path: Path) -> None:
    """The second says that it waits, and finds done what the first did before it ended."""
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    source = "import sys, pathlib; from grader import install; folder = pathlib.Path(sys.argv[1]); install.wait_for_turn(folder)"
    command = [sys.executable, "-c", source + "; print((folder / 'done').exists())", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as second:
        assert second.stdout is not None
        assert "waiting" in second.stdout.readline()
        (tmp_path / "done").touch()
        os.close(holder)
        assert second.stdout.read() == "True\n"
    assert second.returncode == 0
