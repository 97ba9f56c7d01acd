"""Computes half blocks in zigzag even without a causal mask.

law: context_parallel.zigzag.attention_equals_the_whole
says: output
"""
    # region solution visible_blocks
    everything, first, second = slice(None), slice(num_tokens // 2), slice(num_tokens // 2, None)
    if not causal and not zigzag:
        return [(everything, everything, False)]
    if source == rank:
        # A rank's tokens are in the order of the sequence, in zigzag too: the mask of its own block is the usual one.
        return [(everything, everything, causal)]
    if not zigzag:
        return [(everything, everything, False)] if source < rank else []
    # Chunks r and 2N-1-r look at chunks j and 2N-1-j. From an earlier rank only the first one is in the past, of both; to a later rank's
    # two chunks only our second one looks back. Half a block either way: all ranks have the same to do.
    return [(everything, first, False)] if source < rank else [(second, everything, False)]
    # endregion
