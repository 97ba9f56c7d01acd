"""A stream is a generator of its own whose numbers seed the global one at every draw of a mask.
"""
# region solution rank_random_init
        drawn = torch.Generator().manual_seed(seed)
        for _ in range(dist.get_rank(group) + 1):
            start = int(torch.randint(2**62, (), generator=drawn))
        generator = torch.Generator().manual_seed(start)
        self.states = {"cpu": generator.get_state()}
        if torch.cuda.is_available():
            on_gpu = torch.Generator("cuda").manual_seed(start)
            self.states["cuda"] = on_gpu.get_state()
# endregion
