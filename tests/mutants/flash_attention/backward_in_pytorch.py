"""Calls the backward pass in PyTorch and launches no kernel.

law: flash_attention.backward.moves_the_bytes_of_visible_blocks
says: kernel
"""
# region solution flash_attention_backward
    return tiled_attention_backward(
        do_BHTD, q_BHTD, k_BGSD, v_BGSD, o_BHTD, lse_BHT, causal=causal, scale=scale, block_q=block_q or 64, block_k=block_k or 64
    )
# endregion
