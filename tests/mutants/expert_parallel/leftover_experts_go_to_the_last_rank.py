"""Gives what N does not divide to the last rank.

law: expert_parallel.layer.uneven_experts_are_refused
says: ValueError
"""
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        num_here = len(experts) // world_size
        self.router = router
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here if rank < world_size - 1 else None])
        for parameter in self.experts.parameters():
            parameter.is_expert = True  # type: ignore[attr-defined]
        # endregion
