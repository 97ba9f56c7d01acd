"""Multiplies the weights by a mask of ones and zeros; in a row without keys they are infinite, and infinity times zero is no number.

law: flash_attention.tiled.gradients_respect_the_mask
says: NaN
"""
# region solution tiled_attention_backward
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    dq = torch.zeros((B, H, T, D), dtype=torch.float32, device=q_BHTD.device)
    dk = torch.zeros((B, G, S, D), dtype=torch.float32, device=q_BHTD.device)
    dv = torch.zeros((B, G, S, D), dtype=torch.float32, device=q_BHTD.device)
    for first_q in range(0, T, block_q):
        here = slice(first_q, first_q + block_q)
        q, do = q_BHTD[:, :, here].float(), do_BHTD[:, :, here].float()
        lse = lse_BHT[:, :, here].float()[..., None]
        delta = (do * o_BHTD[:, :, here].float()).sum(-1, keepdim=True)
        rows = q.shape[2]
        sees = torch.arange(first_q, first_q + rows, device=q.device) + 1 + S - T if causal else torch.full((rows,), S, device=q.device)
        for first_k in range(0, max(0, int(sees[-1])), block_k):
            there = slice(first_k, first_k + block_k)
            k = k_BGSD[:, :, there].float().repeat_interleave(H // G, dim=1)
            v = v_BGSD[:, :, there].float().repeat_interleave(H // G, dim=1)
            offs_k = torch.arange(first_k, first_k + k.shape[2], device=q.device)
            p = torch.exp(scale * (q @ k.transpose(-1, -2)) - lse) * (offs_k < sees[:, None]).float()
            ds = p * (do @ v.transpose(-1, -2) - delta) * scale
            dq[:, :, here] += ds @ k
            dk[:, :, there] += (ds.transpose(-1, -2) @ q).unflatten(1, (G, H // G)).sum(2)
            dv[:, :, there] += (p.transpose(-1, -2) @ do).unflatten(1, (G, H // G)).sum(2)
    return dq.to(q_BHTD.dtype), dk.to(k_BGSD.dtype), dv.to(v_BGSD.dtype)
# endregion
