"""Looks at chunks one by one, with a kernel call for each pair."""
# region solution visible_blocks
half = num_tokens // 2
if not causal:
    return [(slice(None), slice(0, half), False), (slice(None), slice(half, None), False)]
if not zigzag:
    return [] if source > rank else [(slice(None), slice(None), source == rank)]
num_chunks = 2 * 1024  # any number that is larger than all ranks counts late chunks from the end
halves, blocks = (slice(0, half), slice(half, None)), []
for queries, mine in zip(halves, (rank, num_chunks - 1 - rank), strict=True):
    for keys, theirs in zip(halves, (source, num_chunks - 1 - source), strict=True):
        if theirs <= mine:
            blocks.append((queries, keys, theirs == mine))
return blocks
# endregion
