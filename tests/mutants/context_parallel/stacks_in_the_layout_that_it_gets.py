"""Stacks parts that keep a layout with heads innermost.

law: context_parallel.ulysses.exchanges_heads_for_tokens
says: contiguous
"""
# region solution exchange
# One part after the other. Stacking may keep a layout such as channels_last, and the network wants none.
leaving = torch.stack(x.chunk(dist.get_world_size(group), cut))
arriving = torch.empty_like(leaving)
dist.all_to_all_single(arriving, leaving, group=group)
return torch.cat(arriving.unbind(), join)
# endregion
