"""Exchanges gradients as it did the values.

law: context_parallel.ulysses.attention_equals_the_whole
says: shape
"""
# region solution exchange_backward
# Every number has gone to one place; its gradient goes back the same way.
return exchange(gradient, ctx.group, cut=ctx.cut, join=ctx.join), None, None, None
# endregion
