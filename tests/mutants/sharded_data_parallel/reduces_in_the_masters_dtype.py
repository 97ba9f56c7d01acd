"""Takes the masters' dtype where no reduce_dtype is given, instead of the compute dtype.

law: sharded_data_parallel.fsdp.dtypes_travel_as_configured
says: dtype
"""
        # region solution unit_init
        self.names, self.owners, self.group = list(parameters), [owners[name] for name in parameters], group
        self.world_size = dist.get_world_size(group)
        self.shapes = [parameter.shape for parameter in parameters.values()]
        self.sizes = [parameter.numel() for parameter in parameters.values()]
        self.width = -(-sum(self.sizes) // self.world_size)
        self.spans = shard_spans(self.sizes, dist.get_rank(group), self.world_size)

        first = next(iter(parameters.values()))
        self.master_dtype, self.compute_dtype = first.dtype, compute_dtype or first.dtype
        self.reduce_dtype = reduce_dtype or self.master_dtype
        # One flat tensor for all masters, so that a gather is one cast and one call. Zeros: the padding travels, too.
        self.flat_shard = torch.zeros(self.width, dtype=first.dtype, device=first.device)
        self.shards, self.places = [], []
        begins_at = 0
        for parameter, (start, stop) in zip(parameters.values(), self.spans, strict=True):
            place = slice(begins_at, begins_at + stop - start)
            self.flat_shard[place] = parameter.detach().reshape(-1)[start:stop]
            self.shards.append(nn.Parameter(self.flat_shard[place], requires_grad=parameter.requires_grad))
            self.places.append(place)
            begins_at = place.stop

        # The gathered weights always live in the same tensors, because autograd keeps hold of them between forward and backward; only
        # their memory comes and goes.
        self.flat_whole = torch.empty(self.world_size * self.width, dtype=self.compute_dtype, device=first.device)
        self.whole_bytes = self.flat_whole.untyped_storage().nbytes()
        trained = [parameter.requires_grad for parameter in parameters.values()]
        pieces = self.pieces(self.flat_whole)
        self.wholes = [
            nn.Parameter(piece.view(shape), is_trained) for piece, shape, is_trained in zip(pieces, self.shapes, trained, strict=True)
        ]
        self.flat_whole.untyped_storage().resize_(0)
        self.num_trained, self.num_ready = sum(trained), 0
        self.is_gathered = False  # memory is there, but may still be arriving
        self.gathering: tuple[dist.Work, Tensor] | None = None
        self.reduction: tuple[dist.Work, Tensor, Tensor] | None = None
        self._put_into_modules(self.shards)
        # endregion
