"""FlashAttention: softmax attention, forward and backward, that never holds the matrix of scores.

First in PyTorch, tile by tile, where every step can be printed; then as three Triton kernels. Both return the output and the
natural logarithm of each row's softmax denominator, with which the backward pass makes the weights again instead of storing them.
"""

# B batch, H query heads, G key/value heads (H is a multiple of G), T queries, S keys, D head dim
from __future__ import annotations

from dataclasses import dataclass

import torch

try:
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    jit = triton.jit
except ImportError:  # macOS has no Triton; the tasks in PyTorch need none
    jit = lambda kernel: kernel  # noqa: E731


# --- given: shapes of tiles, descriptors, and which program works on what ---------------------------------------------
@dataclass(frozen=True)
class Tiling:
    """How one kernel is cut up and launched. `num_registers` limits a thread's registers (None: the compiler decides)."""

    block_q: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 2
    num_registers: int | None = None


# By the largest head dim that they serve. Measured on an H200 in bfloat16; the handout's section on speed says how.
ON_HOPPER = {
    "forward": {64: Tiling(64, 128, num_registers=168), 128: Tiling(128, 64), 256: Tiling(64, 32)},
    "backward_q": {64: Tiling(64, 64, num_registers=168), 128: Tiling(128, 64, num_warps=8, num_stages=3), 256: Tiling(32, 32)},
    "backward_kv": {64: Tiling(64, 64, num_stages=3, num_registers=168), 128: Tiling(64, 64), 256: Tiling(32, 32)},
}
# Before Hopper a descriptor is worked out as pointers, which take registers: smaller tiles, or they spill.
BEFORE_HOPPER = {64: Tiling(64, 32), 128: Tiling(64, 32, num_warps=8), 256: Tiling(32, 32, num_warps=8)}


def generation_of_gpu() -> int:
    """The GPU's compute capability as one number: 75, 80, 90, ...; 90 where there is no GPU."""
    try:
        return triton.runtime.driver.active.get_current_target().arch
    except RuntimeError:
        return 90


def tiling_for(kernel: str, like: torch.Tensor, block_q: int | None, block_k: int | None) -> Tiling:
    """The tiling of `kernel` for tensors `like` this one; `block_q` and `block_k` win where they are given."""
    by_head_dim = ON_HOPPER[kernel] if generation_of_gpu() >= 90 else BEFORE_HOPPER
    chosen = by_head_dim[next(head_dim for head_dim in (64, 128, 256) if like.shape[-1] <= head_dim)]
    if like.dtype == torch.float32:  # twice the bytes, and no tensor cores to keep busy
        chosen = Tiling(32, 32)
    if block_q or block_k:  # stages and registers were measured with the blocks that they stand beside
        chosen = Tiling(block_q or chosen.block_q, block_k or chosen.block_k, chosen.num_warps)
    return chosen


def describable(x: torch.Tensor) -> torch.Tensor:
    """`x` itself if a tensor descriptor can describe its layout, otherwise a contiguous copy.

    The hardware wants the last dim contiguous, and the start and all other strides in multiples of 16 bytes.
    """
    strides_fit = x.stride(-1) == 1 and all(stride > 0 and stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x if strides_fit and x.data_ptr() % 16 == 0 else x.clone(memory_format=torch.contiguous_format)


def describe(x_BHTD: torch.Tensor, num_rows: int) -> TensorDescriptor:
    """A descriptor that loads and stores tiles of `num_rows` tokens of one head: `desc.load([b, h, first_row, 0])`.

    A tile has shape [1, 1, num_rows, D], D rounded up to a power of two. Outside the tensor it reads zeros and writes nothing.
    """
    return TensorDescriptor(x_BHTD, list(x_BHTD.shape), list(x_BHTD.stride()), [1, 1, num_rows, triton.next_power_of_2(x_BHTD.shape[-1])])


def rows_describable(x_BHT: torch.Tensor) -> torch.Tensor:
    """`x`, one float32 number per query, as (B H, T'), contiguous; T' is T rounded up to 4, since strides count in 16 bytes. 0 beyond T."""
    x_RT = x_BHT.flatten(0, 1).contiguous()
    return x_RT if x_RT.shape[1] % 4 == 0 else torch.nn.functional.pad(x_RT, (0, -x_RT.shape[1] % 4))


def describe_rows(x_RT: torch.Tensor, num_columns: int, block: int) -> TensorDescriptor:
    """A descriptor of the first `num_columns` of each row: `desc.load([row, first_column])`, of shape [1, block], 0 outside."""
    return TensorDescriptor(x_RT, [x_RT.shape[0], num_columns], list(x_RT.stride()), [1, block])


def heads_in_l2(k_BGSD: torch.Tensor, l2_bytes: int = 16 << 20) -> int:
    """How many heads' keys and values stay in the L2 cache together."""
    return max(1, l2_bytes // (2 * k_BGSD.shape[2] * k_BGSD.shape[3] * k_BGSD.element_size()))


def launch_options(tiles: Tiling, head_dim: int) -> dict[str, int]:
    """The keyword arguments that all three kernels take, and those of the launch itself."""
    blocks = {"BLOCK_Q": tiles.block_q, "BLOCK_K": tiles.block_k, "BLOCK_D": triton.next_power_of_2(head_dim)}
    options = blocks | {"NUM_STAGES": tiles.num_stages, "num_warps": tiles.num_warps, "num_stages": tiles.num_stages}
    return options if tiles.num_registers is None else options | {"maxnreg": tiles.num_registers}


@jit
def my_head_and_place(num_blocks, num_heads, heads_together):
    """Which head (of all batches) this program of a 1-D grid works on, and the how-manieth block of it.

    Heads go in groups whose keys and values fit the L2 cache together; within a group the first blocks of all heads come first.

    num_blocks      of one head; the grid has num_blocks * num_heads programs
    num_heads       of all batches together: B H, or B G where programs own blocks of keys; a kernel's own `num_heads` is that of one batch
    heads_together  heads in a group, as `heads_in_l2` counts them
    """
    program = tl.program_id(0)
    first_head = program // (heads_together * num_blocks) * heads_together
    num_here = tl.minimum(num_heads - first_head, heads_together)
    place = program % (heads_together * num_blocks)
    return first_head + place % num_here, place // num_here


# --- task tiled ------------------------------------------------------------------------------------------------------
def tiled_attention(
    q_BHTD: torch.Tensor,
    k_BGSD: torch.Tensor,
    v_BGSD: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v in plain PyTorch, one tile of `block_q` × `block_k` scores at a time -> (o_BHTD, lse_BHT).

    `causal`: query t sees the keys up to t + S - T. `scale` > 0, None: 1/sqrt(D). `o` has q's dtype; `lse`, the natural logarithm of
    the softmax denominator, is float32. A row that sees no key gives o = 0 and lse = -inf. No inputs are changed.
    """
    raise NotImplementedError("flash_attention, task tiled: see sections 2 to 6 of the handout")


def tiled_attention_backward(
    do_BHTD: torch.Tensor,
    q_BHTD: torch.Tensor,
    k_BGSD: torch.Tensor,
    v_BGSD: torch.Tensor,
    o_BHTD: torch.Tensor,
    lse_BHT: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of `tiled_attention`, given the gradient of its output and what it returned -> (dq_BHTD, dk_BGSD, dv_BGSD).

    In plain PyTorch, one tile at a time; each gradient has the shape and dtype of its tensor. No inputs are changed.
    """
    raise NotImplementedError("flash_attention, task tiled: see sections 2 to 6 of the handout")


# --- task traffic ----------------------------------------------------------------------------------------------------
def forward_traffic_bytes(
    batch: int, num_heads: int, num_queries: int, num_keys: int, head_dim: int, itemsize: int, *, block_q: int, block_k: int, causal: bool
) -> int:
    """Bytes that the forward kernel loads and stores, where every query head has its own key/value head.

    q once, k and v once for each block of queries and in whole blocks of keys as far as it sees any, o once, lse (4 bytes) once.
    """
    raise NotImplementedError("flash_attention, task traffic: see section 7 of the handout")


# --- task forward ----------------------------------------------------------------------------------------------------
@jit
def forward_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr,
    num_heads, num_sharing, num_queries, num_keys, scale, heads_together,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    """o and lse of one block of queries of one head.

    q_desc … o_desc                of q, k, v and o, by `describe`: tiles of BLOCK_Q queries or BLOCK_K keys
    lse_ptr                        float32, contiguous (B, H, T)
    num_heads                      H, the query heads of one batch
    num_sharing                    H / G, the query heads that share one key/value head
    num_queries, num_keys          T and S
    scale                          multiplies the scores; a number, never None here
    heads_together                 for `my_head_and_place`
    CAUSAL, BLOCK_Q, BLOCK_K       the mask, and the tile of scores
    BLOCK_D                        D, rounded up to a power of two
    NUM_STAGES                     how many turns of the loop are loaded ahead: the `num_stages` of `tl.range`
    """
    raise NotImplementedError("flash_attention, task forward: see section 8 of the handout")


def flash_attention_forward(
    q_BHTD: torch.Tensor,
    k_BGSD: torch.Tensor,
    v_BGSD: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `tiled_attention` returns, by one Triton kernel. Blocks are powers of two from 16 to 128; None: the measured ones."""
    raise NotImplementedError("flash_attention, task forward: see section 8 of the handout")


# --- task backward ---------------------------------------------------------------------------------------------------
@jit
def backward_q_kernel(
    q_desc, k_desc, v_desc, o_desc, do_desc, dq_desc, lse_ptr, delta_ptr,
    num_heads, num_sharing, num_queries, num_keys, stride_rows, scale, heads_together,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    """dq of one block of queries of one head, and delta = rowsum(do · o), which the other kernel reads.

    q_desc … dq_desc               of the tensors that they are called by, by `describe`
    lse_ptr, delta_ptr             float32 (B H, T): lse to read, delta to write
    num_heads, num_sharing         H, the query heads of one batch, and H / G
    num_queries, num_keys          T and S
    stride_rows                    from one row of lse and delta to the next: T, or more where `rows_describable` padded
    scale                          multiplies the scores once, and dq once
    the others                     as for `forward_kernel`
    """
    raise NotImplementedError("flash_attention, task backward: see section 9 of the handout")


@jit
def backward_kv_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, lse_desc, delta_desc,
    num_kv_heads, num_sharing, num_queries, num_keys, scale, heads_together,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    """dk and dv of one block of keys of one key/value head, from all query heads that share it.

    q_desc … dv_desc               of the tensors that they are called by, by `describe`
    lse_desc, delta_desc           of lse and delta as (B H, T), by `describe_rows`
    num_kv_heads, num_sharing      G, the key/value heads of one batch, and H / G, the query heads that share each
    num_queries, num_keys          T and S
    scale                          multiplies the scores once, and dk once
    heads_together                 key/value heads in a group, whose queries fit the L2 cache together
    the others                     as for `forward_kernel`
    """
    raise NotImplementedError("flash_attention, task backward: see section 9 of the handout")


def flash_attention_backward(
    do_BHTD: torch.Tensor,
    q_BHTD: torch.Tensor,
    k_BGSD: torch.Tensor,
    v_BGSD: torch.Tensor,
    o_BHTD: torch.Tensor,
    lse_BHT: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `tiled_attention_backward` returns, by Triton kernels."""
    raise NotImplementedError("flash_attention, task backward: see section 9 of the handout")


# --- task autograd ---------------------------------------------------------------------------------------------------
class FlashAttentionFunction(torch.autograd.Function):
    """The two passes as one differentiable operation. Between them it keeps q, k, v, o and lse, and nothing larger."""

    @staticmethod
    def forward(ctx, q_BHTD, k_BGSD, v_BGSD, causal, scale, block_q, block_k):
        """-> o_BHTD."""
        raise NotImplementedError("flash_attention, task autograd: see section 10 of the handout")

    @staticmethod
    def backward(ctx, do_BHTD):
        """-> a gradient for each argument of `forward`: dq, dk, dv, and None for what isn't a tensor."""
        raise NotImplementedError("flash_attention, task autograd: see section 10 of the handout")


def flash_attention(
    q_BHTD: torch.Tensor,
    k_BGSD: torch.Tensor,
    v_BGSD: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int | None = None,
    block_k: int | None = None,
) -> torch.Tensor:
    """softmax(scale · q kᵀ) v, differentiable with respect to q, k and v -> o_BHTD. Options as for `flash_attention_forward`."""
    raise NotImplementedError("flash_attention, task autograd: see section 10 of the handout")
