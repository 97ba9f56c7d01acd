"""Raises to powers before the larger one is taken out.

law: context_parallel.merging.merges_as_one_softmax
says: NaN
"""
# region solution merge_attention
a, b = wide(lse_a).exp(), wide(lse_b).exp()
o_a, o_b = (wide(o).masked_fill((lse == -math.inf)[..., None], 0) for o, lse in ((o_a, lse_a), (o_b, lse_b)))
total = torch.where(a + b == 0, 1.0, a + b)
return (a[..., None] * o_a + b[..., None] * o_b) / total[..., None], (a + b).log()
# endregion
