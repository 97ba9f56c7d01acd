"""Kernels in the watched interpreter: bytes, order, races, wrong addresses, and numbers that mean what they mean on a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
COPY = """
@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)

def run(at):
    x = at.inputs["x"]
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return {"y": y}
"""
TEN = {"x": np.arange(40, dtype=np.float32)}
BACK = {"y": ("float32", (40,))}


def test_bytes_are_counted_by_tensor_kernel_and_program_without_masked_lanes(interpret):
    """Forty floats in blocks of sixteen are 160 bytes loaded and stored, 32 of them by the last program."""
    seen = interpret(COPY, inputs=TEN, returns=BACK)
    (launch,) = seen.facts(0)["watches"][0]
    assert (launch["kernel"], launch["grid"]) == ("copy_kernel", [3, 1, 1])
    assert launch["loaded_bytes"] == {"x": 160} and launch["stored_bytes"] == {"y": 160}
    assert launch["loaded_bytes_by_program"] == [64, 64, 32]
    np.testing.assert_array_equal(seen.rank(0)["y"], TEN["x"])


def test_the_handouts_kernel_runs_beside_the_given_code(interpret):
    """The example of flash_attention's handout, with what the starter gives: lengths and head dims that no block divides, any strides."""
    handout = (ROOT / "assignments/flash_attention/handout.md").read_text()
    example = re.search(r"```python\n(@triton\.jit\ndef scaling_kernel.*?)```", handout, re.S)
    assert example is not None
    given = (ROOT / "starter/flash_attention.py").read_text().partition("# --- task tiled")[0]
    given = given.replace("from __future__ import annotations", "")  # has to stand first in a file
    run = "\ndef run(at):\n    return {'y': scaled_by(at.inputs['x'].transpose(1, 2), 3.0)}\n"
    x = np.random.default_rng(0).standard_normal((2, 45, 3, 24)).astype(np.float32)
    seen = interpret(given + example[1] + run, inputs={"x": x}, returns={"y": ("float32", (2, 3, 45, 24))})
    np.testing.assert_array_equal(seen.rank(0)["y"], 3 * x.transpose(0, 2, 1, 3))


def test_tensor_descriptors_count_what_lies_inside_the_tensor(interpret):
    """A tile that hangs over the edge costs the rows and columns that exist, and reads zeros beyond them."""
    source = """
    @triton.jit
    def kernel(x_desc, y_ptr):
        tile = x_desc.load([0, 0])
        tl.store(y_ptr + tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :], tile)

    def run(at):
        y = torch.empty(4, 16)
        kernel[(1,)](TensorDescriptor.from_tensor(at.inputs["x"], [4, 16]), y)
        return {"y": y}
    """
    seen = interpret(source, inputs={"x": np.ones((3, 12), np.float32)}, returns={"y": ("float32", (4, 16))})
    (launch,) = seen.facts(0)["watches"][0]
    assert launch["loaded_bytes"] == {"x": 3 * 12 * 4} and launch["stored_bytes"] == {"y": 256}
    assert seen.rank(0)["y"].sum() == 36


@pytest.mark.parametrize("loop", ["range(first, n, 2)", "tl.range(first, n, 2)"])
def test_a_loop_variable_has_64_bits_if_a_bound_has(interpret, loop):
    """Row 5 of rows that lie 2**29 elements apart begins beyond 2**31: its place takes 64 bits."""
    source = f"""
    @triton.jit
    def kernel(places_ptr, n, stride):
        first = tl.program_id(0).to(tl.int64) + 1
        for row in {loop}:
            tl.store(places_ptr + row, row * stride)

    def run(at):
        places = torch.zeros(6, dtype=torch.int64)
        kernel[(1,)](places, 6, 2**29)
        assert list(range(2)) == [0, 1]
        return {{"places": places}}
    """
    seen = interpret(source, inputs={}, returns={"places": ("int64", (6,))})
    assert seen.rank(0)["places"].tolist() == [0, 2**29, 0, 3 * 2**29, 0, 5 * 2**29]


def test_masks_of_a_block_and_a_scalar_are_masks(interpret):
    """`&` of both is held as integers; the lanes that they let through are counted, not the elements with those numbers."""
    source = """
    @triton.jit
    def kernel(x_ptr, y_ptr, n):
        at = tl.arange(0, 16)
        counts = tl.load(x_ptr) < 1.0
        x = tl.load(x_ptr + at, mask=(at < n) & counts, other=0.0)
        tl.store(y_ptr + at, x, mask=(at < n) & counts)

    def run(at):
        y = torch.zeros(16)
        kernel[(1,)](at.inputs["x"], y, 5)
        return {"y": y}
    """
    seen = interpret(source, inputs={"x": np.arange(16, dtype=np.float32)}, returns={"y": ("float32", (16,))})
    (launch,) = seen.facts(0)["watches"][0]
    assert launch["loaded_bytes"] == {"x": 4 + 20} and launch["stored_bytes"] == {"y": 20}


def test_atomics_of_several_lanes_on_one_element_count_each(interpret):
    """Sixteen lanes add to one float32: sixteen loads and sixteen stores."""
    source = """
    @triton.jit
    def kernel(x_ptr, sum_ptr):
        at = tl.arange(0, 16)
        tl.atomic_add(sum_ptr + at * 0, tl.load(x_ptr + at))

    def run(at):
        total = torch.zeros(1)
        kernel[(1,)](at.inputs["x"], total)
        return {"y": total}
    """
    seen = interpret(source, inputs={"x": np.ones(16, np.float32)}, returns={"y": ("float32", (1,))})
    (launch,) = seen.facts(0)["watches"][0]
    assert launch["stored_bytes"] == {"y": 64} and launch["loaded_bytes"] == {"x": 64, "y": 64}


def test_programs_run_in_another_order_in_every_watch_and_each_of_them_once(interpret):
    """Sixteen programs take numbers as they come: two watches give two orders, both complete."""
    source = """
    @triton.jit
    def kernel(count_ptr, order_ptr):
        turn = tl.atomic_add(count_ptr, 1)
        tl.store(order_ptr + turn, tl.program_id(0) * 8 + tl.program_id(1))

    def run(at):
        order = torch.empty(16, dtype=torch.int32)
        kernel[(2, 8)](torch.zeros(1, dtype=torch.int32), order)
        run.orders = getattr(run, "orders", []) + [order]
        return {"order": torch.stack(run.orders)}
    """
    orders = interpret(source, returns={"order": ("int32", (2, 16))}, num_watches=2).rank(0)["order"]
    assert all(sorted(order) == list(range(16)) for order in orders.tolist())
    assert orders[0].tolist() != orders[1].tolist()


@pytest.mark.parametrize(
    ("access", "deed"),
    [("tl.load(x_ptr + 40 + tl.arange(0, 16))", "load"), ("tl.store(x_ptr - 16 + tl.arange(0, 16), tl.zeros([16], tl.float32))", "store")],
    ids=["load_behind_the_end", "store_before_the_start"],
)
def test_an_address_outside_all_tensors_is_a_sentence_and_not_a_crash(interpret, access, deed):
    """It names kernel, program, argument and line."""
    source = f"""
    @triton.jit
    def stray_kernel(x_ptr):
        {access}

    def run(at):
        stray_kernel[(1,)](at.inputs["x"])
    """
    seen = interpret(source, "run", inputs=TEN)
    assert seen.fault.kind == "raised"
    for word in ("stray_kernel", "program (0, 0, 0)", f"a {deed} leaves x_ptr (float32, shape [40])", "16 of 16", "tiny.py:6"):
        assert word in seen.fault.sentence, seen.fault.sentence


def test_an_error_deep_inside_a_kernel_names_kernel_and_program_and_lines(interpret):
    """A called function's error comes without the interpreter's wrapping."""
    source = """
    @triton.jit
    def inner(x):
        tl.static_assert(False, "this cannot be")
        return x

    @triton.jit
    def outer_kernel(x_ptr):
        tl.store(x_ptr, inner(tl.load(x_ptr)))

    def run(at):
        outer_kernel[(2,)](at.inputs["x"])
    """
    sentence = interpret(source, "run", inputs=TEN).fault.sentence
    for word in ("KernelError: in kernel outer_kernel, program (0, 0, 0): AssertionError: this cannot be", "in inner"):
        assert word in sentence, sentence


RACES = {
    "adds_without_atomics": ("at = tl.arange(0, 16)\n        tl.store(y_ptr + at, tl.load(y_ptr + at) + 1.0)", True),
    "reads_what_others_write": (
        "i = tl.program_id(0)\n        tl.store(y_ptr + i, 1.0)\n        tl.store(y_ptr + 8 + i, tl.load(y_ptr + (i + 1) % 4))",
        True,
    ),
    "mixes_atomics_and_stores": (
        "if tl.program_id(0) == 0:\n            tl.store(y_ptr, 2.0)\n        else:\n            tl.atomic_add(y_ptr, 1.0)",
        True,
    ),
    "adds_with_atomics": ("tl.atomic_add(y_ptr + tl.arange(0, 16), tl.zeros([16], tl.float32) + 1.0)", False),
    "owns_its_place": ("tl.store(y_ptr + tl.program_id(0), 3.0)\n        tl.store(y_ptr + tl.program_id(0), 4.0)", False),
    "writes_the_same_bits": ("tl.store(y_ptr, 0.0)", False),
    "reads_shared_inputs": ("tl.store(y_ptr + tl.program_id(0), tl.load(x_ptr))", False),
    "counts_itself_in_first": (
        "tl.store(y_ptr + 1 + tl.program_id(0), 1.0)\n        if tl.atomic_add(y_ptr, 1.0) == 3.0:\n"
        "            tl.store(y_ptr + 8, tl.sum(tl.load(y_ptr + 1 + tl.arange(0, 4)), 0))",
        False,
    ),
}


@pytest.mark.parametrize(("body", "is_race"), RACES.values(), ids=RACES)
def test_races_are_found_although_programs_run_in_turn(interpret, body, is_race):
    """Two programs of one launch at the same place, one of them writing, neither atomically; and what looks like it."""
    source = f"""
    @triton.jit
    def kernel(x_ptr, y_ptr):
        {body}

    def run(at):
        kernel[(4,)](at.inputs["x"], torch.zeros(16))
    """
    (launch,) = interpret(source, inputs=TEN).facts(0)["watches"][0]
    assert bool(launch["races"]) is is_race, launch["races"]
    assert not is_race or "y_ptr" in launch["races"][0]


def test_fresh_memory_and_masked_lanes_hold_nan(interpret):
    """torch.empty and a masked load without `other` hold anything on a GPU: here NaN, so that it shows."""
    source = """
    @triton.jit
    def kernel(x_ptr, y_ptr):
        at = tl.arange(0, 4)
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < 2))

    def run(at):
        y = torch.empty(4)
        kernel[(1,)](at.inputs["x"], y)
        return {"empty": torch.cat([torch.empty(3), torch.empty_like(y), y.new_empty(2)]), "y": y}
    """
    got = interpret(source, inputs=TEN, returns={"empty": ("float32", (9,)), "y": ("float32", (4,))}).rank(0)
    assert np.isnan(got["empty"]).all()
    assert got["y"][:2].tolist() == [0.0, 1.0] and np.isnan(got["y"][2:]).all()


DOT = """
@triton.jit
def kernel(x_ptr, y_ptr, K: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, K)
    x = tl.load(x_ptr + i[:, None] * K + k[None, :])
    tl.store(y_ptr + i[:, None] * 16 + i[None, :], tl.dot(x, tl.trans(x){precision}))

def run(at):
    y = torch.empty(16, 16)
    kernel[(1,)](at.inputs["x"], y, K=at.inputs["x"].shape[1])
    return {{"y": y}}
"""


@pytest.mark.parametrize(("precision", "is_exact"), [("", False), (', input_precision="ieee"', True), (", allow_tf32=False", True)])
def test_float32_products_are_tf32_unless_told_otherwise(interpret, precision, is_exact):
    """1 + 2^-12 has no room in tf32's ten bits."""
    x = np.full((16, 32), 1 + 2**-12, np.float32)
    got = interpret(DOT.format(precision=precision), inputs={"x": x}, returns={"y": ("float32", (16, 16))}).rank(0)["y"]
    assert (got == (x @ x.T)).all() if is_exact else (got == 32.0).all()


def test_a_product_over_fewer_than_sixteen_columns_is_refused(interpret):
    """As on a GPU."""
    seen = interpret(DOT.format(precision=""), "run", inputs={"x": np.ones((16, 8), np.float32)}, returns={"y": ("float32", (16, 16))})
    assert "K >= 16" in seen.fault.sentence, seen.fault.sentence


BFLOAT16 = """
from triton.runtime import interpreter

def run(at):
    {sabotage}
    at.report(broken=at.broken_bfloat16())
"""


@pytest.mark.parametrize(
    ("sabotage", "broken"),
    [
        ("pass", []),
        ("interpreter.InterpreterBuilder.create_dot = lambda self, a, b, d, *_: d", ["dot"]),
        ("interpreter._get_np_dtype = lambda dtype: interpreter.np.dtype('uint16') if dtype.scalar == tl.bfloat16 else "
         "interpreter.np.dtype('float32')", None),
    ],
    ids=["repaired", "broken_dot", "unrepaired"],
)  # fmt: skip
def test_bfloat16_is_repaired_and_its_self_test_can_fail(interpret, sabotage, broken):
    """The self-test finds nothing after the repair, the right operation when one is broken, and more when nothing is repaired."""
    seen = interpret(BFLOAT16.format(sabotage=sabotage), "run")
    if broken is None:
        assert seen.fault is not None or seen.facts(0)["broken"]
    else:
        assert seen.facts(0)["broken"] == broken


def test_an_autotuned_kernel_takes_its_first_configuration(interpret):
    """Nothing can be timed here, and there is no driver to ask."""
    source = """
    @triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 4})], key=["n"])
    @triton.jit
    def kernel(y_ptr, n, BLOCK: tl.constexpr):
        tl.store(y_ptr, BLOCK)

    def run(at):
        y = torch.empty(1)
        kernel[(1,)](y, 1)
        return {"y": y}
    """
    assert interpret(source, returns={"y": ("float32", (1,))}).rank(0)["y"].tolist() == [8.0]


def test_no_library_is_imported_late(interpret):
    """What a kernel needs has been imported by the zygote, else every rank would import it."""
    source = COPY.replace("def run(at):", "def run(at):\n    import sys\n    before = set(sys.modules)").replace(
        '    return {"y": y}', '    at.report(late=sorted(set(sys.modules) - before))\n    return {"y": y}'
    )
    assert interpret(source, inputs=TEN, returns=BACK).facts(0)["late"] == []
