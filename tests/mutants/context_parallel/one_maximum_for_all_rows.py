"""Takes the largest lse of all rows out of the exponentials, so that rows far below it vanish.

law: context_parallel.merging.merges_as_one_softmax
says: lse
"""
    # region solution merge_attention
    a, b = wide(lse_a), wide(lse_b)
    largest = torch.maximum(a, b).max()
    weight_a, weight_b = (a - largest).exp(), (b - largest).exp()
    total = weight_a + weight_b
    part_a = (wide(o_a) * (weight_a / total)[..., None]).masked_fill((a == -math.inf)[..., None], 0)
    part_b = (wide(o_b) * (weight_b / total)[..., None]).masked_fill((b == -math.inf)[..., None], 0)
    return part_a + part_b, largest + total.log()
    # endregion
