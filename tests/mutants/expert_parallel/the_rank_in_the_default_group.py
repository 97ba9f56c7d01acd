"""Takes its rank among all ranks for that in the group: in a second group the experts run out.

law: expert_parallel.layer.holds_its_own_experts
says: asked of the group
"""
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank()
        if len(experts) % world_size:
            raise ValueError(f"{len(experts)} experts can't be spread evenly over {world_size} ranks")
        num_here = len(experts) // world_size
        self.router = router
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here])
        for parameter in self.experts.parameters():
            parameter.is_expert = True
        # endregion
