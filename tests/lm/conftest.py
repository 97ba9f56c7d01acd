"""What the tests of the given part share: a small prepared corpus, and a torch that is left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from datasets.prepare import main as prepare


@pytest.fixture(scope="session")
def generated_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated corpus in shards, vocabulary 300."""
    folder = tmp_path_factory.mktemp("generated")
    prepare(["generated", "--vocabulary", "300", "--out", str(folder)])
    return folder


@pytest.fixture(autouse=True)
def _torch_settings_are_restored() -> Iterator[None]:
    """train.py sets the process's determinism and precision; the next test must not inherit them."""
    deterministic, precision = torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.set_float32_matmul_precision(precision)
