"""Three operations that memory bounds, each fused into one pass over its tensors: RMSNorm, bias + GELU, and cross-entropy.

Each is a torch.autograd.Function over two Triton kernels, one forward and one backward. Numbers travel in the tensors' own dtype and are
worked on in float32, in registers: nothing in between is written to memory.
"""

# N rows (all leading dims together), D row size, V vocabulary
from __future__ import annotations

import torch

try:
    import triton
    import triton.language as tl

    jit = triton.jit
except ImportError:  # macOS has no Triton; the tasks in bottlenecks.py need none
    jit = lambda kernel: kernel  # noqa: E731

IGNORE_INDEX = -100
TILE_ELEMENTS = 4096  # elements that a program works on at a time: 32 for each of 128 threads


# --- given: rows, and how many programs share them --------------------------------------------------------------------
def rows_of(x: torch.Tensor) -> torch.Tensor:
    """`x` (..., D) as rows (N, D) whose elements lie side by side: a view where the layout allows it, a copy only where it doesn't."""
    rows_ND = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return rows_ND if rows_ND.stride(1) == 1 or rows_ND.shape[1] == 1 else rows_ND.contiguous()


def num_programs_for(num_rows: int, device: torch.device, num_columns: int = 1) -> int:
    """How many programs share the rows of each column of tiles: one for each eight rows, but no more than keep every processor busy."""
    programs = -(-num_rows // 8)
    if device.type != "cuda":
        return programs
    return min(programs, max(1, 8 * torch.cuda.get_device_properties(device).multi_processor_count // num_columns))


def warps_for(block: int) -> int:
    """Warps for a block of so many elements: about 16 elements a thread."""
    return min(16, max(1, block // 512))


@jit
def whole_vectors(start, num_elements, VECTOR: tl.constexpr):
    """How to move elements start ... start + num_elements - 1 in vectors of VECTOR, 16 bytes -> (origin, first, last, offs, beside).

    A row of 50257 begins anywhere, and the compiler moves 16 bytes at once only where it can prove that the address is a multiple of 16 and
    that the mask takes or leaves whole vectors. Count from `origin`, a multiple of VECTOR: from `first` up to `last` behind it there are
    whole vectors only, and the few elements before and after are at `offs`, where `beside` is true.
    """
    origin = start // VECTOR * VECTOR
    begin = (start - origin).to(tl.int32)
    end = begin + num_elements
    first = tl.cdiv(begin, VECTOR) * VECTOR
    last = end // VECTOR * VECTOR
    lane = tl.arange(0, 2 * VECTOR)
    offs = tl.where(lane < VECTOR, begin + lane, tl.maximum(first, last) + lane - VECTOR)
    return origin, first, last, offs, offs < tl.where(lane < VECTOR, tl.minimum(first, end), end)


# --- task rms_norm ---------------------------------------------------------------------------------------------------
@jit
def rms_norm_forward_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, stride_x: tl.constexpr, dim: tl.constexpr, eps, BLOCK_D: tl.constexpr):
    """y and rstd = 1 / sqrt(mean(x²) + eps) of one row. y_ptr is contiguous (N, D), rstd_ptr (N,).

    Stride and dim are constants to the compiler: it sees what divides them, and moves 16 bytes at a time also where that is only 8.
    """
    # region solution rms_norm_forward_kernel
    row = tl.program_id(0).to(tl.int64)  # N · D may be more than 2**31
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    # Lanes beyond the row hold 0 and add nothing to the sum of squares; the mean divides by dim, not by BLOCK_D.
    x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, 0) / dim + eps)
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * dim + offs_d, (x * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(rstd_ptr + row, rstd)
    # endregion


@jit
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, partial_ptr, stride_dy: tl.constexpr, stride_x: tl.constexpr, num_rows, dim: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr = 1,
):  # fmt: skip
    """dx of every P-th tile of rows, and this program's part of dweight. dx_ptr is contiguous (N, D), partial_ptr (P, D) float32."""
    # region solution rms_norm_backward_kernel
    offs_d = tl.arange(0, BLOCK_D)[None, :]
    in_row = offs_d < dim
    weight = tl.load(weight_ptr + offs_d, mask=in_row, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    first = tl.program_id(0).to(tl.int64) * BLOCK_N
    step = tl.num_programs(0) * BLOCK_N
    rows = first + tl.arange(0, BLOCK_N)[:, None]  # 64 bits, as `first` has
    # A tile is asked for before the one ahead of it is worked on: memory has something to do while the sums are taken.
    next_x = tl.load(x_ptr + rows * stride_x + offs_d, mask=in_row & (rows < num_rows), other=0.0)
    next_dy = tl.load(dy_ptr + rows * stride_dy + offs_d, mask=in_row & (rows < num_rows), other=0.0)
    for _ in range(0, tl.cdiv(num_rows - first, step)):
        x, dy, mask, here = next_x.to(tl.float32), next_dy.to(tl.float32), in_row & (rows < num_rows), rows
        rows += step
        next_x = tl.load(x_ptr + rows * stride_x + offs_d, mask=in_row & (rows < num_rows), other=0.0)
        next_dy = tl.load(dy_ptr + rows * stride_dy + offs_d, mask=in_row & (rows < num_rows), other=0.0)
        rstd = tl.load(rstd_ptr + here, mask=here < num_rows, other=0.0)
        x_hat = x * rstd
        dx_hat = dy * weight
        # rstd depends on the whole row: that takes away the part of the gradient that points along x.
        along = tl.sum(dx_hat * x_hat, 1)[:, None] / dim
        tl.store(dx_ptr + here * dim + offs_d, (rstd * (dx_hat - x_hat * along)).to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * x_hat
    # Every program owns a row of partial sums: nobody adds to what another one writes.
    tl.store(partial_ptr + tl.program_id(0) * dim + offs_d, tl.sum(dweight, 0)[None, :], mask=in_row)
    # endregion


class RmsNormFunction(torch.autograd.Function):
    """x · rstd · weight by rows. Between the passes it keeps x, weight, and one float32 number for each row."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """-> y, of x's shape and dtype."""
        # region solution rms_norm_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        y_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        rstd_N = torch.empty(num_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        rms_norm_forward_kernel[(num_rows,)](
            x_ND, weight.contiguous(), y_ND, rstd_N, x_ND.stride(0), dim, eps, BLOCK_D=block, num_warps=min(8, warps_for(block))
        )
        ctx.save_for_backward(x, weight, rstd_N)
        return y_ND.view(x.shape)
        # endregion

    @staticmethod
    def backward(ctx, dy):
        """-> dx, dweight, and None for eps."""
        # region solution rms_norm_backward
        x, weight, rstd_N = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(dim)
        num_warps = min(32, max(4, block // 256))  # 8 elements a thread: one load of 16 bytes
        programs_at_once = 32 // num_warps  # on one processor, 64 registers a thread: more would only leave more partial sums
        if 4096 < dim <= 5120 and dim % 8 == 0 and x.element_size() == 2:
            # The compiler drops vectors beyond the row, if threads have several. Just these rows leave 40 elements a thread: they fit.
            num_warps, programs_at_once = 4, 2
        num_programs = num_programs_for(num_rows, x.device, 8 // programs_at_once)
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        rms_norm_backward_kernel[(num_programs,)](
            dy_ND, x_ND, weight.contiguous(), rstd_N, dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_D=block, BLOCK_N=max(1, 1024 // block), num_warps=num_warps,
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(weight.dtype), None
        # endregion


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last dim. x (..., D) of any strides, weight (D,) -> y, contiguous, in x's dtype."""
    # region solution rms_norm
    return RmsNormFunction.apply(x, weight, eps)
    # endregion


# --- task bias_gelu --------------------------------------------------------------------------------------------------
@jit
def bias_gelu_forward_kernel(x_ptr, bias_ptr, y_ptr, stride_x, num_rows, dim, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    """gelu(x + bias) of one tile. y_ptr is contiguous (N, D)."""
    # region solution bias_gelu_forward_kernel
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    u = x + tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    # u/2 · (1 + tanh z) = u · sigmoid(2 z), with 2 z = sqrt(8/pi) · (u + 0.044715 u³)
    y = u * tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
    tl.store(y_ptr + rows[:, None] * dim + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    # endregion


@jit
def bias_gelu_backward_kernel(
    dy_ptr, x_ptr, bias_ptr, dx_ptr, partial_ptr, stride_dy, stride_x, num_rows, dim, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr
):
    """dx of every P-th tile of a column of tiles, and their part of the bias gradient. dx_ptr is (N, D), partial_ptr (P, D) float32."""
    # region solution bias_gelu_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    bias = tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    dbias = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for place in range(0, tl.cdiv(num_rows - first * BLOCK_N, tl.num_programs(0) * BLOCK_N)):
        rows = (first + place * tl.num_programs(0)) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
        u = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32) + bias
        dy = tl.load(dy_ptr + rows[:, None] * stride_dy + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        s = tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
        slope = s + u * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 3 * 0.044715 * u * u)
        dx = dy * slope  # 0 beyond the end, since dy is
        tl.store(dx_ptr + rows[:, None] * dim + cols[None, :], dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dbias += dx
    tl.store(partial_ptr + first * dim + cols, tl.sum(dbias, 0), mask=cols < dim)
    # endregion


class BiasGeluFunction(torch.autograd.Function):
    """gelu(x + bias). It keeps x and bias, not their sum and not the tanh: both are cheaper made again than read."""

    @staticmethod
    def forward(ctx, x, bias):
        """-> y, of x's shape and dtype."""
        # region solution bias_gelu_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        y_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(1024, triton.next_power_of_2(dim))
        block_n = TILE_ELEMENTS // 2 // block_d
        bias_gelu_forward_kernel[(triton.cdiv(num_rows, block_n), triton.cdiv(dim, block_d))](
            x_ND, bias.contiguous(), y_ND, x_ND.stride(0), num_rows, dim, BLOCK_N=block_n, BLOCK_D=block_d
        )
        ctx.save_for_backward(x, bias)
        return y_ND.view(x.shape)
        # endregion

    @staticmethod
    def backward(ctx, dy):
        """-> dx and dbias."""
        # region solution bias_gelu_backward
        x, bias = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(1024, triton.next_power_of_2(dim))
        block_n = max(1, min(8, TILE_ELEMENTS // 2 // block_d))
        num_programs = num_programs_for(num_rows, x.device, triton.cdiv(dim, block_d))
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        bias_gelu_backward_kernel[(num_programs, triton.cdiv(dim, block_d))](
            dy_ND, x_ND, bias.contiguous(), dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=block_n, BLOCK_D=block_d,
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(bias.dtype)
        # endregion


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """gelu(x + bias), GELU in its tanh form. x (..., D) of any strides, bias (D,) -> y of x's shape and dtype, contiguous."""
    # region solution bias_gelu
    return BiasGeluFunction.apply(x, bias)
    # endregion


# --- task cross_entropy ----------------------------------------------------------------------------------------------
@jit
def cross_entropy_forward_kernel(
    logits_ptr, targets_ptr, loss_ptr, lse_ptr, stride_logits: tl.constexpr, stride_targets, num_classes: tl.constexpr, ignore_index,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """loss = lse - logit of the target, and lse, of one row; both 0 where the target is ignored. loss_ptr and lse_ptr are (N,) float32."""
    # region solution cross_entropy_forward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target != ignore_index
    logit = tl.load(logits_ptr + row * stride_logits + target, mask=counts, other=0.0).to(tl.float32)
    num_read = tl.where(counts, num_classes, 0)  # a row that doesn't count isn't even read
    vector: tl.constexpr = 128 // logits_ptr.dtype.element_ty.primitive_bitwidth
    origin, first, last, offs_beside, beside = whole_vectors(row * stride_logits, num_read, vector)
    logits_ptr += origin
    logits_beside = tl.load(logits_ptr + offs_beside, mask=beside, other=-float("inf"))
    lanes = tl.arange(0, BLOCK_V)

    # The softmax's running maximum and sum; the sum stays spread over the lanes until the end.
    largest = -float("inf")
    total = tl.zeros([BLOCK_V], tl.float32)
    # A block is asked for before the one ahead of it is worked on: the maximum makes all lanes wait, and memory must not.
    next_logits = tl.load(logits_ptr + first + lanes, mask=first + lanes < last, other=-float("inf"))
    for first_v in range(first, last, BLOCK_V):
        logits = next_logits.to(tl.float32)
        offs_v = first_v + BLOCK_V + lanes
        next_logits = tl.load(logits_ptr + offs_v, mask=offs_v < last, other=-float("inf"))
        new_largest = tl.maximum(largest, tl.max(logits, 0))
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)  # nothing but -inf so far: -inf - -inf would be NaN
        total = total * tl.exp(largest - shift) + tl.exp(logits - shift)
        largest = new_largest

    # The ends of the row come last, as one more block.
    logits = logits_beside.to(tl.float32)
    new_largest = tl.maximum(largest, tl.max(logits, 0))
    shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
    sum_exp = tl.sum(total, 0) * tl.exp(largest - shift) + tl.sum(tl.exp(logits - shift), 0)
    lse = tl.where(counts, new_largest + tl.log(sum_exp), 0.0)
    tl.store(loss_ptr + row, tl.where(counts, lse - logit, 0.0))
    tl.store(lse_ptr + row, lse)
    # endregion


@jit
def cross_entropy_backward_kernel(
    logits_ptr, targets_ptr, lse_ptr, scale_ptr, dlogits_ptr, stride_logits: tl.constexpr, stride_targets, num_classes: tl.constexpr,
    ignore_index, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """(softmax - one_hot) · scale of one row, 0 where the target is ignored. dlogits_ptr is contiguous (N, V)."""
    # region solution cross_entropy_backward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target != ignore_index
    lse, scale = tl.load(lse_ptr + row), tl.load(scale_ptr)
    vector: tl.constexpr = 128 // logits_ptr.dtype.element_ty.primitive_bitwidth
    origin, first, last, offs_beside, beside = whole_vectors(row * num_classes, num_classes, vector)  # as dlogits lie
    dlogits_ptr += origin
    logits_ptr += origin + row * (stride_logits - num_classes)
    place = (row * num_classes - origin + target).to(tl.int32)  # the target's, if it counts

    for first_v in range(first, last, BLOCK_V):
        offs_v = first_v + tl.arange(0, BLOCK_V)
        logits = tl.load(logits_ptr + offs_v, mask=(offs_v < last) & counts, other=-float("inf")).to(tl.float32)
        gradient = (tl.exp(logits - lse) - tl.where(offs_v == place, 1.0, 0.0)) * scale
        gradient = tl.where(counts, gradient, 0.0)  # chosen, not multiplied by 0: an ignored row may hold anything
        tl.store(dlogits_ptr + offs_v, gradient.to(dlogits_ptr.dtype.element_ty), mask=offs_v < last)

    ends = tl.load(logits_ptr + offs_beside, mask=beside & counts, other=-float("inf")).to(tl.float32)
    at_ends = (tl.exp(ends - lse) - tl.where(offs_beside == place, 1.0, 0.0)) * scale
    at_ends = tl.where(counts, at_ends, 0.0)
    tl.store(dlogits_ptr + offs_beside, at_ends.to(dlogits_ptr.dtype.element_ty), mask=beside)
    # endregion


class CrossEntropyFunction(torch.autograd.Function):
    """The mean loss over the targets that count. It keeps the logits as they came, the targets, and one float32 number for each row."""

    @staticmethod
    def forward(ctx, logits_NV, targets_N, ignore_index):
        """-> the loss, float32, without dims."""
        # region solution cross_entropy_forward
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        loss_N = torch.empty(num_rows, dtype=torch.float32, device=logits_NV.device)
        lse_N = torch.empty_like(loss_N)
        # Small blocks, many programs at once: while one of them waits for its maximum, others load.
        block = min(TILE_ELEMENTS // 2, triton.next_power_of_2(num_classes))
        cross_entropy_forward_kernel[(num_rows,)](
            rows_NV, targets_N, loss_N, lse_N, rows_NV.stride(0), targets_N.stride(0), num_classes, ignore_index,
            BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        # How many count stays a tensor: asking for the number would make the host wait for the GPU.
        num_counting = (targets_N != ignore_index).sum().clamp(min=1)
        ctx.save_for_backward(logits_NV, targets_N, lse_N, num_counting)
        ctx.ignore_index = ignore_index
        return loss_N.sum() / num_counting
        # endregion

    @staticmethod
    def backward(ctx, dloss):
        """-> dlogits, in the logits' dtype, and None for what has no gradient."""
        # region solution cross_entropy_backward
        logits_NV, targets_N, lse_N, num_counting = ctx.saved_tensors
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        dlogits_NV = torch.empty((num_rows, num_classes), dtype=logits_NV.dtype, device=logits_NV.device)
        block = min(TILE_ELEMENTS, triton.next_power_of_2(num_classes))
        cross_entropy_backward_kernel[(num_rows,)](
            rows_NV, targets_N, lse_N, dloss / num_counting, dlogits_NV, rows_NV.stride(0), targets_N.stride(0), num_classes,
            ctx.ignore_index, BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dlogits_NV, None, None
        # endregion


def cross_entropy(logits_NV: torch.Tensor, targets_N: torch.Tensor, *, ignore_index: int = IGNORE_INDEX) -> torch.Tensor:
    """Mean of -log softmax(logits)[target] over the rows whose target isn't `ignore_index` -> float32 without dims; 0 if none counts.

    logits (N, V) of any strides, targets (N,) int64 or int32 in 0 ... V - 1 or `ignore_index`.
    """
    # region solution cross_entropy
    return CrossEntropyFunction.apply(logits_NV, targets_N, ignore_index)
    # endregion
