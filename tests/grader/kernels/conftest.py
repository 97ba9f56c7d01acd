"""A course of one assignment whose probe hands itself to the submission, so that kernels can be written in a test."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.records import Assignment, Submission, digest
from grader.store import Store

PROBES = '''
import torch

def run(at):
    return at.submission.run(at)

def watched(at, num_watches=1):
    """Each watch around one call of run(at); the facts of all."""
    facts = []
    for _ in range(num_watches):
        with at.watch_kernels(**at.inputs) as watch:
            outputs = at.submission.run(at) or {}
        watch.name(**outputs)
        facts.append(watch.facts())
    at.report(watches=facts)
    return outputs

def compiled(at, capability):
    with at.compile_kernels(capability) as kernels:
        at.submission.run(at)
    at.report(kernels=kernels)
'''
HEADER = "import torch, triton, triton.language as tl\nfrom triton.tools.tensor_descriptor import TensorDescriptor\n"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Live runs; a zygote of each flavour serves all tests of this folder."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not available for this platform")
    root = tmp_path_factory.mktemp("course")
    (root / "tests" / "probes").mkdir(parents=True)
    (root / "tests" / "probes" / "tiny.py").write_text(PROBES)
    live = Runs(root, Store(root / "run" / "store.sqlite"))
    live.prepare("interpreter")
    yield live
    live.close()
    live.store.close()


@pytest.fixture
def interpret(runs: Runs, tmp_path: Path) -> Callable[..., Any]:
    """interpret(source, probe, inputs=, returns=, **parameters) -> what a run of that submission showed, by default interpreted."""

    def interpret(source: str, probe: str = "watched", *, flavour: str = "interpreter", **request: Any) -> Any:
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "tiny.py").write_text(HEADER + textwrap.dedent(source))
        files = {"tiny.py": digest((folder / "tiny.py").read_bytes())}
        tiny = Assignment("tiny", 1, "Tiny", ("tiny.py",), ())
        observer = Observer(runs, {"tiny": tiny}, {"tiny": Submission(str(folder), "tiny.py", files)})
        return observer.for_case("tiny", False, "test_tiny")(probe, transport="none", flavour=flavour, **request)

    return interpret
