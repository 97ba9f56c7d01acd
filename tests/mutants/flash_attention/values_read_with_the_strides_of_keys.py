"""Reads v with the strides of k, which most often has the same layout.

law: flash_attention.forward.any_layout
says: stride
"""
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
        *q_BHTD.stride(), *k_BGSD.stride(), *k_BGSD.stride(), H, H // G, T, S, D,
        CAUSAL=causal, BLOCK_Q=tiles.block_q, BLOCK_K=tiles.block_k, BLOCK_D=triton.next_power_of_2(D),
        num_warps=tiles.num_warps, num_stages=tiles.num_stages,
    )  # fmt: skip
    return o, lse
# endregion
