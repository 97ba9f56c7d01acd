"""Cuts the head's product by tp and lets each rank read all logits.

law: parallel_plan.compute.head_and_optimizer_count
says: head
"""
    # region solution head_seconds
    N, V = plan.micro_batch * model.sequence / plan.cp, model.vocab_size / plan.tp
    return product_s(cluster, N, model.hidden_size, V) + 18 * N * model.vocab_size / cluster.memory_bytes_per_s
    # endregion
