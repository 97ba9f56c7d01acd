"""Pointers with masks instead of descriptors, keys outside and queries inside (FlashAttention-1), and one backward kernel with atomics."""

from __future__ import annotations

import math

import torch

try:
    import triton
    import triton.language as tl

    jit = triton.jit
except ImportError:
    jit = lambda kernel: kernel  # noqa: E731


def _seen(t, num_queries, num_keys, causal):
    return (t + 1 + num_keys - num_queries).clamp(max=num_keys) if causal else torch.full_like(t, num_keys)


def tiled_attention(q_BHTD, k_BGSD, v_BGSD, *, causal=False, scale=None, block_q=64, block_k=64):
    """Finished results of each block of keys, merged by their lse: keys outside, queries inside."""
    batch, num_heads, num_queries, head_dim = q_BHTD.shape
    num_keys, num_sharing = k_BGSD.shape[2], num_heads // k_BGSD.shape[1]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    o = torch.zeros(q_BHTD.shape, dtype=torch.float32)
    lse = torch.full(q_BHTD.shape[:3], -torch.inf)
    for first_k in range(0, num_keys, block_k):
        k, v = (x[:, :, first_k : first_k + block_k].float() for x in (k_BGSD, v_BGSD))
        for first_q in range(0, num_queries, block_q):
            rows = slice(first_q, min(first_q + block_q, num_queries))
            t = torch.arange(rows.start, rows.stop)
            # (B, G, sharing, rows, D) against (B, G, 1, keys, D): query heads of a group lie side by side
            q = q_BHTD[:, :, rows].float().unflatten(1, (-1, num_sharing))
            s = (q @ k.unsqueeze(2).mT * scale).flatten(1, 2)
            hidden = torch.arange(first_k, first_k + k.shape[2]) >= _seen(t, num_queries, num_keys, causal)[:, None]
            s = s.masked_fill(hidden, -torch.inf)
            here = torch.logsumexp(s, -1)
            p = torch.exp(s - here.masked_fill(here == -torch.inf, 0.0)[..., None])
            part = (p.unflatten(1, (-1, num_sharing)) @ v.unsqueeze(2)).flatten(1, 2)
            both = torch.logaddexp(lse[:, :, rows], here)
            safe = both.masked_fill(both == -torch.inf, 0.0)
            o[:, :, rows] = o[:, :, rows] * torch.exp(lse[:, :, rows] - safe)[..., None] + part * torch.exp(here - safe)[..., None]
            lse[:, :, rows] = both
    return o.to(q_BHTD.dtype), lse


def tiled_attention_backward(do_BHTD, q_BHTD, k_BGSD, v_BGSD, o_BHTD, lse_BHT, *, causal=False, scale=None, block_q=64, block_k=64):
    """Keys outside, queries inside."""
    num_queries, num_keys, head_dim = q_BHTD.shape[2], k_BGSD.shape[2], q_BHTD.shape[3]
    num_sharing = q_BHTD.shape[1] // k_BGSD.shape[1]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    delta = (do_BHTD.float() * o_BHTD.float()).sum(-1, keepdim=True)
    dq = torch.zeros(q_BHTD.shape)
    dk, dv = torch.zeros(k_BGSD.shape), torch.zeros(v_BGSD.shape)
    for first_k in range(0, num_keys, block_k):
        cols = slice(first_k, first_k + block_k)
        k, v = (x[:, :, cols].float().repeat_interleave(num_sharing, 1) for x in (k_BGSD, v_BGSD))
        for first_q in range(0, num_queries, block_q):
            rows = slice(first_q, min(first_q + block_q, num_queries))
            q, do = q_BHTD[:, :, rows].float(), do_BHTD[:, :, rows].float()
            t = torch.arange(rows.start, rows.stop)
            hidden = torch.arange(first_k, first_k + k.shape[2]) >= _seen(t, num_queries, num_keys, causal)[:, None]
            p = torch.exp(q @ k.mT * scale - lse_BHT[:, :, rows, None]).masked_fill(hidden, 0.0)
            ds = p * (do @ v.mT - delta[:, :, rows])
            dq[:, :, rows] += ds @ k * scale
            dk[:, :, cols] += (ds.mT @ q * scale).unflatten(1, (-1, num_sharing)).sum(2)
            dv[:, :, cols] += (p.mT @ do).unflatten(1, (-1, num_sharing)).sum(2)
    return dq.to(q_BHTD.dtype), dk.to(k_BGSD.dtype), dv.to(v_BGSD.dtype)


def forward_traffic_bytes(batch, num_heads, num_queries, num_keys, head_dim, itemsize, *, block_q, block_k, causal):
    """Tile by tile."""
    num_bytes = 2 * num_queries * head_dim * itemsize + 4 * num_queries
    for first_q in range(0, num_queries, block_q):
        last = min(first_q + block_q, num_queries) - 1
        for first_k in range(0, num_keys, block_k):
            if not causal or first_k <= last + num_keys - num_queries:
                num_bytes += 2 * head_dim * itemsize * (min(first_k + block_k, num_keys) - first_k)
    return batch * num_heads * num_bytes


@jit
def _forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, sqb, sqh, sqt, sqd, skb, skh, skt, skd, svb, svh, svt, svd,
    H, SHARING, T, S, D, scale, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    first_q = tl.program_id(0) * BLOCK_Q
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    offs_q, offs_d = first_q + tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_D)
    in_q = (offs_q[:, None] < T) & (offs_d[None, :] < D)
    q = tl.load(q_ptr + b * sqb + h * sqh + offs_q[:, None] * sqt + offs_d[None, :] * sqd, mask=in_q, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    norm = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(tl.minimum(first_q + BLOCK_Q, T) + S - T, S)
    for first_k in range(0, end, BLOCK_K):
        offs_k = first_k + tl.arange(0, BLOCK_K)
        in_k = (offs_k[:, None] < end) & (offs_d[None, :] < D)  # no row beyond what the last query sees
        k = tl.load(k_ptr + b * skb + (h // SHARING) * skh + offs_k[:, None] * skt + offs_d[None, :] * skd, mask=in_k, other=0.0)
        v = tl.load(v_ptr + b * svb + (h // SHARING) * svh + offs_k[:, None] * svt + offs_d[None, :] * svd, mask=in_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = offs_k[None, :] < S
        if CAUSAL:
            visible = visible & (offs_k[None, :] <= offs_q[:, None] + S - T)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.where(visible, tl.exp(s - safe[:, None]), 0.0)
        alpha = tl.exp(m - safe)
        norm = norm * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    norm_safe = tl.where(norm == 0.0, 1.0, norm)
    o_at = o_ptr + ((b * H + h) * T + offs_q[:, None]) * D + offs_d[None, :]
    tl.store(o_at, (acc / norm_safe[:, None]).to(o_ptr.dtype.element_ty), mask=in_q)
    tl.store(lse_ptr + (b * H + h) * T + offs_q, m + tl.log(norm), mask=offs_q < T)


def flash_attention_forward(q, k, v, *, causal=False, scale=None, block_q=None, block_k=None):
    """One program per block of queries and head of the batch; any strides, no copies."""
    B, H, T, D = q.shape
    block_q, block_k = block_q or 64, block_k or 32
    o, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(q.shape[:3], device=q.device)
    _forward_kernel[(triton.cdiv(T, block_q), B * H)](
        q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), H, H // k.shape[1], T, k.shape[2], D, scale or D**-0.5,
        CAUSAL=causal, BLOCK_Q=block_q, BLOCK_K=block_k, BLOCK_D=triton.next_power_of_2(D), num_warps=4,
    )  # fmt: skip
    return o, lse


@jit
def _backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr,
    G, SHARING, T, S, D, scale, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    first_k = tl.program_id(0) * BLOCK_K
    b, g = tl.program_id(1) // G, tl.program_id(1) % G
    offs_k, offs_d = first_k + tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_D)
    in_k = (offs_k[:, None] < S) & (offs_d[None, :] < D)
    at_k = ((b * G + g) * S + offs_k[:, None]) * D + offs_d[None, :]
    k, v = tl.load(k_ptr + at_k, mask=in_k, other=0.0), tl.load(v_ptr + at_k, mask=in_k, other=0.0)
    dk, dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32), tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(first_k + T - S, 0) // BLOCK_Q * BLOCK_Q
    for i in range(SHARING):
        row = (b * G * SHARING + g * SHARING + i) * T
        for first_q in range(start, T, BLOCK_Q):
            offs_q = first_q + tl.arange(0, BLOCK_Q)
            in_q = (offs_q[:, None] < T) & (offs_d[None, :] < D)
            at_q = (row + offs_q[:, None]) * D + offs_d[None, :]
            q, do = tl.load(q_ptr + at_q, mask=in_q, other=0.0), tl.load(do_ptr + at_q, mask=in_q, other=0.0)
            lse = tl.load(lse_ptr + row + offs_q, mask=offs_q < T, other=0.0)
            delta = tl.load(delta_ptr + row + offs_q, mask=offs_q < T, other=0.0)
            visible = (offs_k[None, :] < S) & (offs_q[:, None] < T)
            if CAUSAL:
                visible = visible & (offs_k[None, :] <= offs_q[:, None] + S - T)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)
            dv += tl.dot(tl.trans(p.to(do.dtype)), do, input_precision="ieee")
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            ds = (p * (dp - delta[:, None])).to(q.dtype)
            dk += tl.dot(tl.trans(ds), q, input_precision="ieee")
            tl.atomic_add(dq_ptr + at_q, tl.dot(ds, k, input_precision="ieee") * scale, mask=in_q)
    tl.store(dk_ptr + at_k, (dk * scale).to(dk_ptr.dtype.element_ty), mask=in_k)
    tl.store(dv_ptr + at_k, dv.to(dv_ptr.dtype.element_ty), mask=in_k)


def flash_attention_backward(do, q, k, v, o, lse, *, causal=False, scale=None, block_q=None, block_k=None):
    """dq is summed by atomics in float32, delta by torch."""
    B, H, T, D = q.shape
    G, S, dtype = k.shape[1], k.shape[2], q.dtype
    block_q, block_k = block_q or 32, block_k or 64
    q, k, v, do = (x.contiguous() for x in (q, k, v, do))
    delta = (do.float() * o.float()).sum(-1)
    dq, dk, dv = torch.zeros(q.shape, device=q.device), torch.empty_like(k), torch.empty_like(v)
    _backward_kernel[(triton.cdiv(S, block_k), B * G)](
        q, k, v, do, lse.contiguous(), delta, dq, dk, dv, G, H // G, T, S, D, D**-0.5 if scale is None else scale,
        CAUSAL=causal, BLOCK_Q=block_q, BLOCK_K=block_k, BLOCK_D=triton.next_power_of_2(D), num_warps=4,
    )  # fmt: skip
    return dq.to(dtype), dk, dv


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, options):
        o, lse = flash_attention_forward(q, k, v, **options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = options
        return o

    @staticmethod
    def backward(ctx, do):
        return *flash_attention_backward(do, *ctx.saved_tensors, **ctx.options), None


def flash_attention(q, k, v, *, causal=False, scale=None, block_q=None, block_k=None):
    return FlashAttentionFunction.apply(q, k, v, {"causal": causal, "scale": scale, "block_q": block_q, "block_k": block_k})
