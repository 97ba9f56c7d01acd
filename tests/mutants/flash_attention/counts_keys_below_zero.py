"""Lets blocks of queries that come before the first key count a negative number of rows.

law: flash_attention.traffic.matches_the_derivation
says: see nothing
"""
# region solution forward_traffic_bytes
    rows_of_keys = 0
    for first_q in range(0, num_queries, block_q):
        last = min(first_q + block_q, num_queries) - 1
        seen = last + 1 + num_keys - num_queries if causal else num_keys
        rows_of_keys += min(num_keys, -(-seen // block_k) * block_k)
    per_head = 2 * num_queries * head_dim * itemsize + 2 * rows_of_keys * head_dim * itemsize + 4 * num_queries
    return batch * num_heads * per_head
# endregion
