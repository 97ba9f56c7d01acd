"""Forgets the bytes of the logits.

law: parallel_plan.compute.head_and_optimizer_count
says: loss
"""
    # region solution head_seconds
    N, V = plan.micro_batch * model.sequence / plan.cp, model.vocab_size / plan.tp
    return product_s(cluster, N, model.hidden_size, V)
    # endregion
