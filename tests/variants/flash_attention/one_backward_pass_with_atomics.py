"""Backward is one kernel that owns a block of keys and adds to dq by atomics in float32; it works in base e with scores that lie the usual
way round, and delta is made by PyTorch.
"""
# region solution flash_attention_backward
    @jit
    def kernel(
        q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_ptr, lse_ptr, delta_ptr,
        num_kv_heads, num_sharing, num_queries, num_keys, head_dim, scale,
        CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        b, g = tl.program_id(1) // num_kv_heads, tl.program_id(1) % num_kv_heads
        first_k = tl.program_id(0) * BLOCK_K
        offs_k = first_k + tl.arange(0, BLOCK_K)
        offs_d = tl.arange(0, BLOCK_D)
        start = 0
        if CAUSAL:
            start = tl.maximum(first_k + num_queries - num_keys, 0) // BLOCK_Q * BLOCK_Q
        k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
        dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
        for sharing in range(num_sharing):
            h = g * num_sharing + sharing
            row = (b * num_kv_heads * num_sharing + h) * num_queries
            for first_q in range(start, num_queries, BLOCK_Q):
                offs_q = first_q + tl.arange(0, BLOCK_Q)
                is_q = offs_q < num_queries
                q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
                do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
                lse = tl.load(lse_ptr + row + offs_q, mask=is_q, other=0.0)
                delta = tl.load(delta_ptr + row + offs_q, mask=is_q, other=0.0)
                is_seen = is_q[:, None] & (offs_k < num_keys)[None, :]
                if CAUSAL:
                    is_seen = is_seen & (offs_k[None, :] <= offs_q[:, None] + num_keys - num_queries)
                s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
                p = tl.where(is_seen, tl.exp(s - lse[:, None]), 0.0)
                dv += tl.dot(tl.trans(p).to(do.dtype), do, input_precision="ieee")
                ds = p * (tl.dot(do, tl.trans(v), input_precision="ieee") - delta[:, None]) * scale
                ds = ds.to(q.dtype)
                dk += tl.dot(tl.trans(ds), q, input_precision="ieee")
                dq_tile = dq_ptr + (row + offs_q)[:, None] * head_dim + offs_d[None, :]
                dq = tl.dot(ds, k, input_precision="ieee")
                tl.atomic_add(dq_tile, dq, mask=is_q[:, None] & (offs_d < head_dim)[None, :], sem="relaxed")
        dk_desc.store([b, g, first_k, 0], dk.to(k.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))
        dv_desc.store([b, g, first_k, 0], dv.to(v.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))

    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    do, q, k, v = (describable(x) for x in (do_BHTD, q_BHTD, k_BGSD, v_BGSD))
    lse = lse_BHT.contiguous()
    delta = torch.linalg.vecdot(do.float(), o_BHTD.float())
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (k, v))
    tiles = tiling_for("backward_kv", q, block_q, block_k)
    q_desc, do_desc = (describe(x, tiles.block_q) for x in (q, do))
    k_desc, v_desc, dk_desc, dv_desc = (describe(x, tiles.block_k) for x in (k, v, dk, dv))
    kernel[(triton.cdiv(S, tiles.block_k), B * G)](
        q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq, lse, delta, G, H // G, T, S, D, D**-0.5 if scale is None else scale,
        CAUSAL=causal, BLOCK_Q=tiles.block_q, BLOCK_K=tiles.block_k, BLOCK_D=triton.next_power_of_2(D), num_warps=4, num_stages=1,
    )  # fmt: skip
    return dq.to(q.dtype), dk, dv
# endregion
