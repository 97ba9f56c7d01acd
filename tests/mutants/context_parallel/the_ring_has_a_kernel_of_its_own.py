"""Forgets the kernel that the model's attention is to use, if it goes round the ring.

law: context_parallel.model.loss_and_gradients_equal_the_whole
says: kernel
"""
# region solution parallelize_context
if method not in ("ring", "ulysses") or (method == "ulysses" and zigzag):
    raise ValueError(f"no context parallelism by {method}{' with zigzag' if zigzag else ''}")
if method == "ring":
    attend = functools.partial(ring_attention, group=group, zigzag=zigzag)
else:
    attend = functools.partial(ulysses_attention, group=group, kernel=kernel)
for block in gpt.blocks:
    block.attention.attend = attend
gpt.cross_entropy = functools.partial(sequence_cross_entropy, group=group)
return gpt
# endregion
