"""Takes the mean of both outputs.

law: context_parallel.merging.merges_as_one_softmax
says: mean
"""
# region solution merge_attention
lse = torch.logaddexp(wide(lse_a), wide(lse_b))
return (wide(o_a) + wide(o_b)) / 2, lse
# endregion
