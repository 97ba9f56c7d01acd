"""Lays the given pieces end to end, so that where a name is missing the later ones come from other places.

law: sharded_data_parallel.whole.is_what_one_process_has
says: frozen
"""
        # region solution gather_whole
        for unit in self.units:
            if unit is None or not any(name in pieces for name in unit.names):
                continue
            mine = next(iter(pieces.values())).new_zeros(unit.width)
            given = torch.cat([pieces[name].detach() for name in unit.names if name in pieces])
            mine[: len(given)] = given
            flat = mine.new_empty(unit.world_size * unit.width)
            dist.all_gather_into_tensor(flat, mine, group=self.group)
            for name, whole, shape in zip(unit.names, unit.pieces(flat), unit.shapes, strict=True):
                if name in pieces:
                    yield name, whole.view(shape)
        # endregion
