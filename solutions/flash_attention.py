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
    # region solution tiled_attention
    num_queries, num_keys, head_dim = q_BHTD.shape[2], k_BGSD.shape[2], q_BHTD.shape[3]
    num_sharing = q_BHTD.shape[1] // k_BGSD.shape[1]  # query heads per key/value head
    scale = head_dim**-0.5 if scale is None else scale
    o_BHTD = torch.empty_like(q_BHTD)
    lse_BHT = torch.empty(q_BHTD.shape[:3], dtype=torch.float32, device=q_BHTD.device)

    for first_q in range(0, num_queries, block_q):
        q = q_BHTD[:, :, first_q : first_q + block_q].float()
        t = torch.arange(first_q, first_q + q.shape[2], device=q.device)
        # How many keys each row sees; negative where a causal row lies before the first key.
        seen = (t + 1 + num_keys - num_queries if causal else torch.full_like(t, num_keys)).unsqueeze(-1)

        largest = torch.full((*q.shape[:3], 1), -torch.inf, device=q.device)  # largest score so far
        total = torch.zeros_like(largest)  # sum of exp(score - largest) so far
        acc = torch.zeros_like(q)  # sum of exp(score - largest) v so far
        for first_k in range(0, max(0, int(seen[-1])), block_k):  # keys that the last row doesn't see, no row sees
            k = k_BGSD[:, :, first_k : first_k + block_k].float().repeat_interleave(num_sharing, dim=1)
            v = v_BGSD[:, :, first_k : first_k + block_k].float().repeat_interleave(num_sharing, dim=1)
            s = q @ k.mT * scale
            s = s.masked_fill(torch.arange(first_k, first_k + k.shape[2], device=q.device) >= seen, -torch.inf)

            new_largest = torch.maximum(largest, s.amax(-1, keepdim=True))
            # A row that has seen no key yet has largest = -inf, and -inf - -inf is NaN: measure such rows from 0 instead.
            origin = new_largest.masked_fill(new_largest == -torch.inf, 0.0)
            p = torch.exp(s - origin)
            rescale = torch.exp(largest - origin)  # what was summed relative to the old maximum
            total = total * rescale + p.sum(-1, keepdim=True)
            acc = acc * rescale + p @ v
            largest = new_largest

        # Normalise once, at the end. total = 0 happens only in rows without keys, whose acc is 0 as well.
        o_BHTD[:, :, first_q : first_q + block_q] = (acc / total.masked_fill(total == 0, 1.0)).to(q_BHTD.dtype)
        lse_BHT[:, :, first_q : first_q + block_q] = (largest + torch.log(total)).squeeze(-1)
    return o_BHTD, lse_BHT
    # endregion


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
    # region solution tiled_attention_backward
    num_queries, num_keys, head_dim = q_BHTD.shape[2], k_BGSD.shape[2], q_BHTD.shape[3]
    num_sharing = q_BHTD.shape[1] // k_BGSD.shape[1]
    scale = head_dim**-0.5 if scale is None else scale
    # Sums over many tiles are held in float32, whatever the inputs are, and rounded once at the end.
    dq_BHTD, dk_BGSD, dv_BGSD = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (q_BHTD, k_BGSD, v_BGSD))

    for first_q in range(0, num_queries, block_q):
        rows = slice(first_q, min(first_q + block_q, num_queries))
        q, do, o = (x[:, :, rows].float() for x in (q_BHTD, do_BHTD, o_BHTD))
        lse = lse_BHT[:, :, rows].unsqueeze(-1)
        delta = (do * o).sum(-1, keepdim=True)  # the row's mean of dP under P: what softmax takes off every dP
        t = torch.arange(rows.start, rows.stop, device=q.device)
        seen = (t + 1 + num_keys - num_queries if causal else torch.full_like(t, num_keys)).unsqueeze(-1)

        for first_k in range(0, max(0, int(seen[-1])), block_k):
            cols = slice(first_k, min(first_k + block_k, num_keys))
            k = k_BGSD[:, :, cols].float().repeat_interleave(num_sharing, dim=1)
            v = v_BGSD[:, :, cols].float().repeat_interleave(num_sharing, dim=1)
            p = torch.exp(q @ k.mT * scale - lse)  # the weights again: no maximum, no sum, no division
            # After exp, not before: a row without keys has lse = -inf, so that exp gives inf there.
            p = p.masked_fill(torch.arange(cols.start, cols.stop, device=q.device) >= seen, 0.0)
            ds = p * (do @ v.mT - delta) * scale
            dq_BHTD[:, :, rows] += ds @ k
            # Query heads that share a key head each add to its gradient.
            dk_BGSD[:, :, cols] += (ds.mT @ q).unflatten(1, (-1, num_sharing)).sum(2)
            dv_BGSD[:, :, cols] += (p.mT @ do).unflatten(1, (-1, num_sharing)).sum(2)
    return dq_BHTD.to(q_BHTD.dtype), dk_BGSD.to(k_BGSD.dtype), dv_BGSD.to(v_BGSD.dtype)
    # endregion


# --- task traffic ----------------------------------------------------------------------------------------------------
def forward_traffic_bytes(
    batch: int, num_heads: int, num_queries: int, num_keys: int, head_dim: int, itemsize: int, *, block_q: int, block_k: int, causal: bool
) -> int:
    """Bytes that the forward kernel loads and stores, where every query head has its own key/value head.

    q once, k and v once for each block of queries and in whole blocks of keys as far as it sees any, o once, lse (4 bytes) once.
    """
    # region solution forward_traffic_bytes
    key_rows = 0
    for first_q in range(0, num_queries, block_q):
        last_row = min(first_q + block_q, num_queries) - 1
        seen = max(0, min(num_keys, last_row + 1 + num_keys - num_queries)) if causal else num_keys
        key_rows += min(num_keys, -(-seen // block_k) * block_k)  # whole blocks, but no byte beyond the last key
    row_bytes = head_dim * itemsize
    return batch * num_heads * (2 * num_queries * row_bytes + 2 * key_rows * row_bytes + 4 * num_queries)
    # endregion


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
    # region solution forward_kernel
    num_blocks = tl.cdiv(num_queries, BLOCK_Q)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, h = head // num_heads, head % num_heads
    first_q = (num_blocks - 1 - place) * BLOCK_Q  # the last queries see the most keys: begin with the longest work
    offs_q = first_q + tl.arange(0, BLOCK_Q)

    # One number per row, the keys that it sees, covers the causal mask and the end of the keys alike.
    seen = tl.zeros([BLOCK_Q], tl.int32) + num_keys
    if CAUSAL:
        seen = tl.minimum(offs_q, num_queries - 1) + 1 + num_keys - num_queries
    least_seen = tl.min(seen, 0)

    q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    largest = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    log2_scale = scale * 1.4426950408889634  # scores in base 2: exp2 is one instruction of the GPU, exp is two

    for first_k in tl.range(0, tl.max(seen, 0), BLOCK_K, num_stages=NUM_STAGES):
        k = k_desc.load([b, h // num_sharing, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee")  # float32 stays float32; the default, tf32, keeps 10 bits
        if first_k + BLOCK_K > least_seen:  # only blocks on the diagonal or at the end pay for the mask
            s = tl.where(first_k + tl.arange(0, BLOCK_K)[None, :] < seen[:, None], s, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(s, 1) * log2_scale)
        origin = tl.where(new_largest == -float("inf"), 0.0, new_largest)  # rows without keys: -inf - -inf would be NaN
        p = tl.exp2(s * log2_scale - origin[:, None])
        rescale = tl.exp2(largest - origin)
        total = total * rescale + tl.sum(p, 1)
        v = v_desc.load([b, h // num_sharing, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None], input_precision="ieee")
        largest = new_largest

    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    o_desc.store([b, h, first_q, 0], o.to(o_desc.dtype).reshape(1, 1, BLOCK_Q, BLOCK_D))
    lse = (largest + tl.log2(total)) * 0.6931471805599453  # back to base e
    tl.store(lse_ptr + head * num_queries + offs_q, lse, mask=offs_q < num_queries)
    # endregion


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
    # region solution flash_attention_forward
    batch, num_heads, num_queries, head_dim = q_BHTD.shape
    q, k, v = describable(q_BHTD), describable(k_BGSD), describable(v_BGSD)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tiles = tiling_for("forward", q, block_q, block_k)
    forward_kernel[(batch * num_heads * triton.cdiv(num_queries, tiles.block_q),)](
        describe(q, tiles.block_q), describe(k, tiles.block_k), describe(v, tiles.block_k), describe(o, tiles.block_q), lse,
        num_heads, num_heads // k.shape[1], num_queries, k.shape[2], head_dim**-0.5 if scale is None else scale, heads_in_l2(k),
        CAUSAL=causal, **launch_options(tiles, head_dim),
    )  # fmt: skip
    return o, lse
    # endregion


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
    # region solution backward_q_kernel
    num_blocks = tl.cdiv(num_queries, BLOCK_Q)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, h = head // num_heads, head % num_heads
    first_q = (num_blocks - 1 - place) * BLOCK_Q
    offs_q = first_q + tl.arange(0, BLOCK_Q)
    seen = tl.zeros([BLOCK_Q], tl.int32) + num_keys
    if CAUSAL:
        seen = tl.minimum(offs_q, num_queries - 1) + 1 + num_keys - num_queries
    least_seen = tl.min(seen, 0)

    q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    o = o_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    rows = head * stride_rows + offs_q
    tl.store(delta_ptr + rows, delta, mask=offs_q < num_queries)
    log2_lse = tl.load(lse_ptr + rows, mask=offs_q < num_queries, other=0.0) * 1.4426950408889634
    log2_scale = scale * 1.4426950408889634
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)

    for first_k in tl.range(0, tl.max(seen, 0), BLOCK_K, num_stages=NUM_STAGES):
        k = k_desc.load([b, h // num_sharing, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        v = v_desc.load([b, h // num_sharing, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee")
        dp = tl.dot(do, v.T, input_precision="ieee")
        p = tl.exp2(s * log2_scale - log2_lse[:, None])
        if first_k + BLOCK_K > least_seen:  # after exp2: a row without keys has lse = -inf and p = inf
            p = tl.where(first_k + tl.arange(0, BLOCK_K)[None, :] < seen[:, None], p, 0.0)
        ds = (p * (dp - delta[:, None])).to(k.dtype)
        dq = tl.dot(ds, k, dq, input_precision="ieee")
    dq_desc.store([b, h, first_q, 0], (dq * scale).to(dq_desc.dtype).reshape(1, 1, BLOCK_Q, BLOCK_D))
    # endregion


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
    # region solution backward_kv_kernel
    num_blocks = tl.cdiv(num_keys, BLOCK_K)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, g = head // num_kv_heads, head % num_kv_heads
    first_k = place * BLOCK_K  # the first keys are seen by the most queries
    offs_k = first_k + tl.arange(0, BLOCK_K)
    k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
    v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
    dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    log2_scale = scale * 1.4426950408889634
    start_q = 0
    if CAUSAL:  # query t sees this block's first key if t + S - T >= first_k; begin with the block that holds that t
        start_q = tl.maximum(first_k + num_queries - num_keys, 0) // BLOCK_Q * BLOCK_Q

    # One program owns its keys: nobody else adds to dk and dv, so no atomics, and the same bits in every run.
    for shared_by in range(num_sharing):
        h = g * num_sharing + shared_by
        row = b * num_kv_heads * num_sharing + h
        for first_q in tl.range(start_q, num_queries, BLOCK_Q, num_stages=NUM_STAGES):
            q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
            do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
            # By descriptors too: they arrive with the tiles, where pointers would take registers that the loop has not got.
            lse = lse_desc.load([row, first_q]).reshape(BLOCK_Q)
            delta = delta_desc.load([row, first_q]).reshape(BLOCK_Q)
            # Scores are held transposed, keys down and queries across: pT and dsT then enter the next products as they are. Queries
            # beyond the end are zeros throughout and add nothing; what keys beyond the end add stays in rows that are never stored.
            sT = tl.dot(k, q.T, input_precision="ieee")
            dpT = tl.dot(v, do.T, input_precision="ieee")  # before exp2, which needs other units: the tensor cores go on with the next two
            pT = tl.exp2(sT * log2_scale - (lse * 1.4426950408889634)[None, :])
            if CAUSAL:  # noqa: SIM102 - this `if` is decided when the kernel is compiled, the next one when it runs
                if first_k + BLOCK_K > first_q + 1 + num_keys - num_queries:  # the block's first query doesn't see all of these keys
                    offs_q = first_q + tl.arange(0, BLOCK_Q)
                    pT = tl.where(offs_k[:, None] <= offs_q[None, :] + num_keys - num_queries, pT, 0.0)
            dv = tl.dot(pT.to(do.dtype), do, dv, input_precision="ieee")
            dsT = (pT * (dpT - delta[None, :])).to(q.dtype)
            dk = tl.dot(dsT, q, dk, input_precision="ieee")
    dk_desc.store([b, g, first_k, 0], (dk * scale).to(dk_desc.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))
    dv_desc.store([b, g, first_k, 0], dv.to(dv_desc.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))
    # endregion


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
    # region solution flash_attention_backward
    batch, num_heads, num_queries, head_dim = q_BHTD.shape
    q, k, v, o, do = (describable(x) for x in (q_BHTD, k_BGSD, v_BGSD, o_BHTD, do_BHTD))
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    lse = rows_describable(lse_BHT)
    delta = torch.empty_like(lse)
    num_sharing = num_heads // k.shape[1]
    scale = head_dim**-0.5 if scale is None else scale

    tiles = tiling_for("backward_q", q, block_q, block_k)
    by_q, by_k = (lambda x: describe(x, tiles.block_q)), (lambda x: describe(x, tiles.block_k))
    backward_q_kernel[(batch * num_heads * triton.cdiv(num_queries, tiles.block_q),)](
        by_q(q), by_k(k), by_k(v), by_q(o), by_q(do), by_q(dq), lse, delta,
        num_heads, num_sharing, num_queries, k.shape[2], lse.stride(0), scale, heads_in_l2(k),
        CAUSAL=causal, **launch_options(tiles, head_dim),
    )  # fmt: skip

    # The second kernel reads the delta of every row, so it starts when the first has ended.
    # Its programs begin at different queries and walk apart, so fewer heads at once stay in the cache.
    tiles = tiling_for("backward_kv", q, block_q, block_k)
    backward_kv_kernel[(batch * k.shape[1] * triton.cdiv(k.shape[2], tiles.block_k),)](
        by_q(q), by_k(k), by_k(v), by_q(do), by_k(dk), by_k(dv), *(describe_rows(x, num_queries, tiles.block_q) for x in (lse, delta)),
        k.shape[1], num_sharing, num_queries, k.shape[2], scale, heads_in_l2(q, 8 << 20), CAUSAL=causal, **launch_options(tiles, head_dim),
    )  # fmt: skip
    return dq, dk, dv
    # endregion


# --- task autograd ---------------------------------------------------------------------------------------------------
class FlashAttentionFunction(torch.autograd.Function):
    """The two passes as one differentiable operation. Between them it keeps q, k, v, o and lse, and nothing larger."""

    @staticmethod
    def forward(ctx, q_BHTD, k_BGSD, v_BGSD, causal, scale, block_q, block_k):
        """-> o_BHTD."""
        # region solution function_forward
        o, lse = flash_attention_forward(q_BHTD, k_BGSD, v_BGSD, causal=causal, scale=scale, block_q=block_q, block_k=block_k)
        ctx.save_for_backward(q_BHTD, k_BGSD, v_BGSD, o, lse)
        ctx.options = {"causal": causal, "scale": scale, "block_q": block_q, "block_k": block_k}
        return o
        # endregion

    @staticmethod
    def backward(ctx, do_BHTD):
        """-> a gradient for each argument of `forward`: dq, dk, dv, and None for what isn't a tensor."""
        # region solution function_backward
        dq, dk, dv = flash_attention_backward(do_BHTD, *ctx.saved_tensors, **ctx.options)
        return dq, dk, dv, None, None, None, None
        # endregion


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
    # region solution flash_attention
    return FlashAttentionFunction.apply(q_BHTD, k_BGSD, v_BGSD, causal, scale, block_q, block_k)
    # endregion
