"""Kernels compiled for chips that aren't there: what they need, and why they don't compile."""

from __future__ import annotations

import pytest

from grader.errors import LawBroken
from tests.laws.compiling import judge_it_compiles

PRODUCT = """
@triton.jit
def product_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.dot(x, x))

def run(at):
    product_kernel[(1,)](torch.zeros({size}, {size}, dtype=torch.float16), torch.zeros({size}, {size}), N={size}, num_warps={warps})
"""


@pytest.mark.parametrize(("capability", "has_tensor_cores"), [(75, False), (80, True), (90, True), (100, True)])
def test_a_kernel_is_compiled_for_each_generation(interpret, capability, has_tensor_cores):
    """Shared memory, registers, spills and tensor-core instructions, without a GPU."""
    (kernel,) = interpret(PRODUCT.format(size=16, warps=1), "compiled", flavour="compiler", capability=capability).facts(0)["kernels"]
    assert (kernel["kernel"], kernel["capability"]) == ("product_kernel", capability)
    assert 0 < kernel["registers"] <= 255 and kernel["stack_bytes"] == 0
    assert bool(kernel["tensor_core_instructions"]) is has_tensor_cores


def test_spilled_registers_show_as_stack(interpret):
    """A thousand accumulators don't fit into 32 registers of one warp."""
    (kernel,) = interpret(PRODUCT.format(size=32, warps="1, maxnreg=32"), "compiled", flavour="compiler", capability=80).facts(0)["kernels"]
    assert kernel["stack_bytes"] > 64 and kernel["shared_bytes"] > 0


def test_a_type_error_is_a_sentence_with_file_and_line_and_later_kernels_are_compiled_too(interpret):
    """A loop that changes its variable's type passes the interpreter and not the compiler."""
    source = """
    @triton.jit
    def changing_kernel(x_ptr, n):
        total = tl.zeros([16], tl.float16)
        for _ in range(n):
            total += tl.load(x_ptr + tl.arange(0, 16))
        tl.store(x_ptr + tl.arange(0, 16), total)

    @triton.jit
    def fine_kernel(x_ptr):
        tl.store(x_ptr, 1.0)

    def run(at):
        x = torch.zeros(16)
        changing_kernel[(1,)](x, 3)
        fine_kernel[(1,)](x)
    """
    wrong, fine = interpret(source, "compiled", flavour="compiler", capability=90).facts(0)["kernels"]
    for word in ("changing_kernel does not compile at tiny.py:7: Loop-carried variable total", "fp16", "fp32"):
        assert word in wrong["error"], wrong["error"]
    assert "error" not in fine and fine["kernel"] == "fine_kernel"


def test_a_number_of_the_module_is_answered_with_what_to_do(interpret):
    """The interpreter reads a global that the compiler refuses; the law's message says where the number may stand."""
    source = """
    LOG2_E = 1.4426950408889634

    @triton.jit
    def scaling_kernel(x_ptr):
        tl.store(x_ptr, LOG2_E)

    def run(at):
        scaling_kernel[(1,)](torch.zeros(1))
    """
    (kernel,) = interpret(source, "compiled", flavour="compiler", capability=80).facts(0)["kernels"]
    with pytest.raises(LawBroken) as broken:
        judge_it_compiles(kernel)
    message = broken.value.message
    assert "On sm_80: scaling_kernel does not compile at tiny.py:" in message.seen and "LOG2_E" in message.seen
    assert message.suggestion == "Put the number inside the kernel, or pass it as a tl.constexpr argument."
    with pytest.raises(LawBroken) as broken:
        judge_it_compiles(kernel | {"error": "scaling_kernel does not compile: types differ"})
    assert "lenient" in broken.value.message.suggestion
    judge_it_compiles({"kernel": "scaling_kernel", "capability": 80, "shared_bytes": 0})


def test_the_absent_chip_is_what_torch_and_triton_say_it_is(interpret):
    """A submission that chooses its blocks by the chip chooses those for the one that is asked about."""
    source = """
    def run(at):
        at.report(triton=triton.runtime.driver.active.get_current_target().arch, torch=list(torch.cuda.get_device_capability()))
    """
    seen = interpret(source, "compiled", flavour="compiler", capability=80)
    assert (seen.facts(0)["triton"], seen.facts(0)["torch"]) == (80, [8, 0])
