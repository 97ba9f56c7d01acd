"""Adds up the router's gradient over the ranks inside backward.

law: expert_parallel.layer.gradients_equal_the_dense_mixture
says: sum over the ranks
"""
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        if len(experts) % world_size:
            raise ValueError(f"{len(experts)} experts can't be spread evenly over {world_size} ranks")
        num_here = len(experts) // world_size
        self.router = router
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here])
        def summed(gradient: Tensor) -> Tensor:
            total = gradient.clone()
            dist.all_reduce(total, group=group)
            return total

        for parameter in router.parameters():
            parameter.register_hook(summed)
        for parameter in self.experts.parameters():
            parameter.is_expert = True  # type: ignore[attr-defined]
        # endregion
