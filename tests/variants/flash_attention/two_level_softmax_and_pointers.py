"""Finishes the softmax of every tile and merges finished parts by their lse; backward walks over keys outside, one group of heads after the
other; the forward kernel takes pointers and strides, stands inside the function that launches it, and has a grid in two dimensions.
"""
# region solution tiled_attention
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    outputs, lses = [], []
    for first_q, q in zip(range(0, T, block_q), q_BHTD.split(block_q, dim=2)):
        q = q.unflatten(1, (G, H // G)).float()
        o, lse = torch.zeros_like(q), torch.full(q.shape[:-1], -torch.inf, device=q.device)
        sees = torch.arange(first_q, first_q + q.shape[3], device=q.device)[:, None] + 1 + S - T
        for first_k, k, v in zip(range(0, S, block_k), k_BGSD.split(block_k, dim=2), v_BGSD.split(block_k, dim=2)):
            if causal and first_k >= int(sees[-1]):
                break
            s = torch.einsum("bgntd,bgsd->bgnts", q, k.float()) * scale
            if causal:
                s = torch.where(torch.arange(first_k, first_k + k.shape[2], device=q.device) < sees, s, -torch.inf)
            lse_here = torch.logsumexp(s, dim=-1)
            o_here = torch.einsum("bgnts,bgsd->bgntd", torch.softmax(s, dim=-1).nan_to_num(), v.float())
            both = torch.logaddexp(lse, lse_here)
            shares = [torch.exp(one - both).nan_to_num(nan=0.0).unsqueeze(-1) for one in (lse, lse_here)]
            o, lse = shares[0] * o + shares[1] * o_here, both
        outputs.append(o.flatten(1, 2).to(q_BHTD.dtype))
        lses.append(lse.flatten(1, 2))
    return torch.cat(outputs, dim=2), torch.cat(lses, dim=2)
# endregion
# region solution tiled_attention_backward
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    dq = torch.zeros(q_BHTD.shape, dtype=torch.float32, device=q_BHTD.device)
    dk, dv = torch.empty(k_BGSD.shape, dtype=k_BGSD.dtype), torch.empty(v_BGSD.shape, dtype=v_BGSD.dtype)
    dk, dv = dk.to(k_BGSD.device), dv.to(v_BGSD.device)
    for g in range(G):
        for first_k in range(0, S, block_k):
            k, v = (x[:, g, first_k : first_k + block_k].float() for x in (k_BGSD, v_BGSD))
            dk_here, dv_here = torch.zeros_like(k), torch.zeros_like(v)
            offs_k = first_k + torch.arange(k.shape[1], device=k.device)
            start = max(0, first_k + T - S) // block_q * block_q if causal else 0
            for h in range(g * (H // G), (g + 1) * (H // G)):
                for first_q in range(start, T, block_q):
                    q, do, o = (x[:, h, first_q : first_q + block_q].float() for x in (q_BHTD, do_BHTD, o_BHTD))
                    lse = lse_BHT[:, h, first_q : first_q + block_q, None]
                    s = scale * torch.bmm(q, k.mT)
                    if causal:
                        offs_q = first_q + torch.arange(q.shape[1], device=q.device)
                        s = torch.where(offs_k[None, :] <= offs_q[:, None] + S - T, s, -torch.inf)
                    p = torch.where(lse == -torch.inf, 0.0, torch.exp(s - lse))
                    ds = p * (torch.bmm(do, v.mT) - (do * o).sum(-1, keepdim=True))
                    dq[:, h, first_q : first_q + block_q] += scale * torch.bmm(ds, k)
                    dk_here += scale * torch.bmm(ds.mT, q)
                    dv_here += torch.bmm(p.mT, do)
            dk[:, g, first_k : first_k + block_k], dv[:, g, first_k : first_k + block_k] = dk_here, dv_here
    return dq.to(q_BHTD.dtype), dk, dv
# endregion
# region solution forward_traffic_bytes
    ends = [min(first + block_q, num_queries) for first in range(0, num_queries, block_q)]
    tiles = [max(0, num_keys - num_queries + end if causal else num_keys) for end in ends]
    rows = sum(min(num_keys, (seen + block_k - 1) // block_k * block_k) for seen in tiles)
    return batch * num_heads * (2 * head_dim * itemsize * (num_queries + rows) + 4 * num_queries)
# endregion
# region solution flash_attention_forward
    @jit
    def kernel(
        q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale,
        stride_qb, stride_qh, stride_qt, stride_qd,
        stride_kb, stride_kh, stride_ks, stride_kd,
        stride_vb, stride_vh, stride_vs, stride_vd,
        num_heads, num_sharing, num_queries, num_keys, head_dim,
        CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        first_q = tl.program_id(0) * BLOCK_Q
        b, h = tl.program_id(1) // num_heads, tl.program_id(1) % num_heads
        g = h // num_sharing
        offs_q = first_q + tl.arange(0, BLOCK_Q)
        offs_d = tl.arange(0, BLOCK_D)
        is_q = (offs_q < num_queries)[:, None] & (offs_d < head_dim)[None, :]
        q_tile = q_ptr + b * stride_qb + h * stride_qh + offs_q[:, None] * stride_qt + offs_d[None, :] * stride_qd
        q = tl.load(q_tile, mask=is_q, other=0.0)
        sees = tl.zeros([BLOCK_Q], tl.int32) + num_keys
        end = num_keys
        if CAUSAL:
            sees = tl.minimum(offs_q + 1 + num_keys - num_queries, num_keys)
            end = tl.minimum(tl.maximum(first_q + BLOCK_Q + num_keys - num_queries, 0), num_keys)
        m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_Q], tl.float32)
        acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
        for first_k in range(0, end, BLOCK_K):
            offs_k = first_k + tl.arange(0, BLOCK_K)
            is_k = (offs_k < num_keys)[:, None] & (offs_d < head_dim)[None, :]
            k_tile = k_ptr + b * stride_kb + g * stride_kh + offs_k[:, None] * stride_ks + offs_d[None, :] * stride_kd
            v_tile = v_ptr + b * stride_vb + g * stride_vh + offs_k[:, None] * stride_vs + offs_d[None, :] * stride_vd
            k = tl.load(k_tile, mask=is_k, other=0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
            s = tl.where(offs_k[None, :] < sees[:, None], s, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1))
            base = tl.where(m_new == float("-inf"), 0.0, m_new)
            p = tl.exp2(s - base[:, None])
            shrink = tl.exp2(m - base)
            total = total * shrink + tl.sum(p, 1)
            v = tl.load(v_tile, mask=is_k, other=0.0)
            acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
            m = m_new
        row = tl.program_id(1) * num_queries + offs_q
        o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
        tl.store(o_ptr + row[:, None] * head_dim + offs_d[None, :], o.to(q.dtype), mask=is_q)
        tl.store(lse_ptr + row, (m + tl.log2(total)) * 0.6931471805599453, mask=offs_q < num_queries)

    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    o = torch.empty(q_BHTD.shape, dtype=q_BHTD.dtype, device=q_BHTD.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q_BHTD.device)
    tiles = tiling_for("forward", q_BHTD, block_q, block_k)
    kernel[(triton.cdiv(T, tiles.block_q), B * H)](
        q_BHTD, k_BGSD, v_BGSD, o, lse, D**-0.5 if scale is None else scale,
        *q_BHTD.stride(), *k_BGSD.stride(), *v_BGSD.stride(), H, H // G, T, S, D,
        CAUSAL=causal, BLOCK_Q=tiles.block_q, BLOCK_K=tiles.block_k, BLOCK_D=triton.next_power_of_2(D),
        num_warps=tiles.num_warps, num_stages=tiles.num_stages,
    )  # fmt: skip
    return o, lse
# endregion
