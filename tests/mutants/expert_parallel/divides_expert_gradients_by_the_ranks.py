"""Hooks a division by N onto the experts' gradients, before anybody averages them.

law: expert_parallel.layer.gradients_equal_the_dense_mixture
says: expert
"""
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        if len(experts) % world_size:
            raise ValueError(f"{len(experts)} experts can't be spread evenly over {world_size} ranks")
        num_here = len(experts) // world_size
        self.router = router
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here])
        for parameter in self.experts.parameters():
            parameter.is_expert = True
            parameter.register_hook(lambda gradient: gradient / world_size)
        # endregion
