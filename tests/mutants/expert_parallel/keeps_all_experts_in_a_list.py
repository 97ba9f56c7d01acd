"""Keeps every expert in a list that named_parameters does not see.

law: expert_parallel.layer.holds_its_own_experts
says: experts
"""
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        if len(experts) % world_size:
            raise ValueError(f"{len(experts)} experts can't be spread evenly over {world_size} ranks")
        num_here = len(experts) // world_size
        self.router, self.all_experts = router, list(experts)
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here])
        for parameter in self.experts.parameters():
            parameter.is_expert = True
        # endregion
