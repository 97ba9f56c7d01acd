"""What the laws of mixed_precision hold submissions against is itself held against torch: the library that it describes."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.mixed_precision import casts, formats, masters
from tests.laws.mixed_precision.scaling import published_scales
from tests.probes.mixed_precision.casts import OPERATIONS

RULES = st.fixed_dictionaries(
    {
        "init_scale": st.sampled_from([1.0, 1024.0, 65536.0]),
        "growth_factor": st.sampled_from([1.5, 2.0, 4.0]),
        "backoff_factor": st.sampled_from([0.25, 0.5, 0.75]),
        "growth_interval": st.integers(1, 6),
    }
)


@settings(max_examples=60, deadline=None)
@given(pattern=st.lists(st.booleans(), max_size=25), rule=RULES)
def test_the_published_rule_is_grad_scalers(pattern: list[bool], rule: dict[str, float]) -> None:
    """For any pattern of overflows the model of the rule and torch.amp.GradScaler have the same scales."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", **rule)
    scaler.scale(torch.zeros(()))  # makes the scale, which torch does on first use
    scales = [scaler.get_scale()]
    for overflow in pattern:
        weight.grad = torch.tensor([float("inf") if overflow else 1.0, 0.0])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    np.testing.assert_allclose(published_scales(pattern, **rule), scales, rtol=1e-5)  # torch keeps its scale in float32


TORCH_OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=masters.RATE),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=masters.RATE, momentum=0.9),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=masters.RATE, weight_decay=masters.DECAY),
}


@pytest.mark.parametrize("name", sorted(TORCH_OPTIMIZERS))
def test_the_written_out_optimizers_are_torchs(name: str) -> None:
    """SGD, momentum and AdamW step as torch's do in float64, also where gradients are missing."""
    rng = np.random.default_rng(3)
    start, steps = rng.uniform(0.5, 2, (3, 8)), rng.standard_normal((7, 3, 8))
    missing = [[], [0], [1, 2], [], [0, 1, 2], [2], []]
    weights = [torch.nn.Parameter(torch.tensor(row)) for row in start]
    optimizer, history = TORCH_OPTIMIZERS[name](weights), []
    for step, absent in zip(steps, missing, strict=True):
        for index, weight in enumerate(weights):
            weight.grad = None if index in absent else torch.tensor(step[index])
        optimizer.step()
        history.append(np.stack([weight.detach().numpy().copy() for weight in weights]))
    np.testing.assert_allclose(masters.optimised(start, steps, name, missing), np.stack(history), rtol=1e-12)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("numbers", sorted(formats.NUMBERS))
def test_the_formats_oracle_rounds_as_torch_does(name: str, numbers: str) -> None:
    """ml_dtypes and torch agree to the bit on every number that the laws ask for, ties and subnormals too."""
    with np.errstate(over="ignore"):  # bf16's largest is float32's: beyond it float32 is infinite already
        x = formats.NUMBERS[numbers](np.random.default_rng(1), name).astype(np.float32)
    ours = formats.as_format(x.astype(np.float64), name)
    theirs = torch.tensor(x).to(getattr(torch, name)).double().numpy()
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_the_formats_oracle_rounds_float64_once(name: str) -> None:
    """Beside a tie, nearer than float32 can tell, the oracle takes the nearer of the format's neighbours, found among all its numbers."""
    size = formats.kind_of(name).itemsize
    with np.errstate(invalid="ignore"):  # NaNs are among them
        every = np.arange(2 ** (8 * size), dtype=f"u{size}").view(formats.kind_of(name)).astype(np.float64)
    every = np.unique(every[np.isfinite(every)])
    below, above = every[:-1], every[1:]
    ties = below / 2 + above / 2
    np.testing.assert_array_equal(formats.as_format(ties - (above - below) * 2.0**-30, name), below)
    np.testing.assert_array_equal(formats.as_format(ties + (above - below) * 2.0**-30, name), above)


def test_every_format_has_ties_subnormals_and_overflows() -> None:
    """The drawn numbers hold what the laws are about: ties to both sides, subnormals, both infinities."""
    for name, (_, mantissa_bits) in formats.FORMATS.items():
        rng = np.random.default_rng(2)
        x = formats.normal_numbers(rng, name)
        spacing = 2.0 ** (np.floor(np.log2(np.abs(x))) - mantissa_bits)
        ties = np.isclose(np.abs(x / spacing) % 1, 0.5, rtol=0, atol=1e-12)
        up = np.abs(formats.as_format(x, name)) > np.abs(x)
        assert (ties & up).sum() > 20 and (ties & ~up).sum() > 20, name
        tiny = formats.as_format(formats.tiny_numbers(rng, name), name)
        limits = ml_dtypes.finfo(formats.kind_of(name))
        assert ((tiny != 0) & (np.abs(tiny) < float(limits.smallest_normal))).sum() > 20, name
        assert {np.inf, -np.inf} <= set(formats.as_format(formats.huge_numbers(rng, name), name).tolist()), name


def test_the_wide_operations_formulas_are_torchs() -> None:
    """Each formula gives what torch gives in float64."""
    rng = np.random.default_rng(4)
    a, b, v = rng.standard_normal((4, 4)) * 3, rng.standard_normal((4, 4)), rng.uniform(0.5, 1.5, 4)
    for name, formula in casts.WIDE.items():
        theirs = OPERATIONS[name](*(torch.tensor(array) for array in (a, b, v))).numpy()
        np.testing.assert_allclose(np.asarray(formula(a, b, v)), theirs, rtol=1e-10, err_msg=name)
    assert set(casts.NARROW) | set(casts.ALSO_WIDE) | set(casts.AS_GIVEN) == set(OPERATIONS)


@pytest.mark.parametrize("name", casts.WIDE)
def test_float32_passes_as_wide_whatever_is_drawn(name: str) -> None:
    """torch's own operation in float32, on the numbers of many seeds."""
    for seed in range(300):
        drawn = casts.numbers(np.random.default_rng(seed))
        right, allowed = casts.right_and_allowed(name, *(drawn[each].astype(np.float64) for each in "abv"))
        got = OPERATIONS[name](*(torch.from_numpy(drawn[each]) for each in "abv")).double().flatten().numpy()
        assert np.all(np.abs(got - right) <= allowed), f"seed {seed}"
