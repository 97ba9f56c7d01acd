"""Says how many rows each expert has in tensors, not in ints.

law: expert_parallel.dispatch.rows_arrive_by_expert
says: ints
"""
# region solution dispatch
num_tokens, num_experts = routing.probabilities.shape
world_size = dist.get_world_size(group)
if num_experts % world_size:
    raise ValueError(f"{num_experts} experts can't be spread evenly over {world_size} ranks")
# By expert, and so by rank; stable, so that an expert's rows stay in the order of the tokens.
token, choice = routing.kept.nonzero(as_tuple=True)
expert, order = routing.experts[token, choice].sort(stable=True)
token, choice = token[order], choice[order]
here_E = torch.bincount(expert, minlength=num_experts)  # minlength: experts that nobody chose count, too
there_NL = exchange_counts(here_E, group)
# The splits of an all-to-all are Python numbers: here the CPU waits for the GPU, once.
sent = here_E.view(world_size, -1).sum(1).tolist()
received = there_NL.sum(1).tolist()
arrived = all_to_all_rows(x[token], sent, received, group)
# Rows arrive by rank and, from each, by expert. Experts want them by expert: label all rows, and sort the labels.
labels = torch.arange(there_NL.shape[1], device=x.device).repeat(world_size).repeat_interleave(there_NL.flatten())
arrival = labels.argsort(stable=True)
back = WayBack(sent, received, token, routing.weights[token, choice], arrival, num_tokens, group)
return Dispatched(arrived[arrival], list(there_NL.sum(0)), back)
# endregion
