"""A rank has an N-th of every parameter instead of one range of the unit; what arrives is put in order when it has landed."""
        # region solution unit_init
        self.names, self.owners, self.group = list(parameters), [owners[name] for name in parameters], group
        self.world_size = dist.get_world_size(group)
        self.shapes = [parameter.shape for parameter in parameters.values()]
        self.sizes = [parameter.numel() for parameter in parameters.values()]
        self.widths = [-(-size // self.world_size) for size in self.sizes]
        self.width = sum(self.widths)
        self.spans = [shard_spans([size], dist.get_rank(group), self.world_size)[0] for size in self.sizes]
        # Ranks' parts lie side by side: column by column they are the parameters, each with a padding of its own.
        self.pieces = lambda flat: [
            columns.reshape(-1)[:size]
            for columns, size in zip(flat.view(self.world_size, self.width).split(self.widths, 1), self.sizes, strict=True)
        ]

        first = next(iter(parameters.values()))
        self.master_dtype, self.compute_dtype = first.dtype, compute_dtype or first.dtype
        self.reduce_dtype = reduce_dtype or self.compute_dtype
        # One flat tensor for all masters, so that a gather is one cast and one call. Zeros: the padding travels, too.
        self.flat_shard = torch.zeros(self.width, dtype=first.dtype, device=first.device)
        self.shards, self.places = [], []
        columns = [sum(self.widths[:number]) for number in range(len(self.widths))]
        for parameter, (start, stop), begins_at in zip(parameters.values(), self.spans, columns, strict=True):
            place = slice(begins_at, begins_at + stop - start)
            self.flat_shard[place] = parameter.detach().reshape(-1)[start:stop]
            self.shards.append(nn.Parameter(self.flat_shard[place], requires_grad=parameter.requires_grad))
            self.places.append(place)

        # The gathered weights always live in the same tensors, because autograd keeps hold of them between forward and backward; only
        # their memory comes and goes.
        self.flat_whole = torch.empty(sum(self.sizes), dtype=self.compute_dtype, device=first.device)
        self.whole_bytes = self.flat_whole.untyped_storage().nbytes()
        trained = [parameter.requires_grad for parameter in parameters.values()]
        pieces = self.flat_whole.split(self.sizes)
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
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        mine = self.flat_shard.to(self.compute_dtype)
        self.arriving = mine.new_empty(self.world_size * self.width)
        work = dist.all_gather_into_tensor(self.arriving, mine, group=self.group, async_op=True)
        self.gathering = (work, mine)
        # endregion
        # region solution unit_wait
        self.start_gathering()
        if self.gathering is not None:
            self.gathering[0].wait()
            self.gathering = None
            self.flat_whole.untyped_storage().resize_(self.whole_bytes)
            for target, piece in zip(self.flat_whole.data.split(self.sizes), self.pieces(self.arriving), strict=True):
                target.copy_(piece)
            self.arriving = None
            self._put_into_modules(self.wholes)
        # endregion
        # region solution unit_reduce
        flat = torch.zeros(self.world_size, self.width, dtype=self.reduce_dtype, device=self.flat_shard.device)
        for whole, columns, width in zip(self.wholes, flat.split(self.widths, 1), self.widths, strict=True):
            if whole.grad is not None:
                line = whole.grad.reshape(-1)
                full, rest = divmod(line.numel(), width) if width else (0, 0)
                columns[:full] = line[: full * width].view(full, width)
                if rest:
                    columns[full, :rest] = line[full * width :]
                whole.grad = None
        flat = flat.view(-1)
        received = flat.new_empty(self.width)
        work = dist.reduce_scatter_tensor(received, flat, group=self.group, async_op=True)
        self.reduction = (work, received, flat)
        self.num_ready = 0
        # endregion
