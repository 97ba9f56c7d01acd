"""Names as the wrapper has them.

law: sharded_data_parallel.whole.is_what_one_process_has
says: names
"""
# region solution named_shards
    shards = {name: shard for unit in self.units if unit is not None for name, shard in zip(unit.names, unit.shards, strict=True)}
    return {f'module.{name}': shards[name] for name in self.order}
# endregion

# region solution gather_whole
    for unit in self.units:
        if unit is None or not any(name in pieces for name in [f'module.{each}' for each in unit.names]):
            continue
        mine = next(iter(pieces.values())).new_zeros(unit.width)
        for name, place in zip([f'module.{each}' for each in unit.names], unit.places, strict=True):
            if name in pieces:
                mine[place] = pieces[name].detach()
        flat = mine.new_empty(unit.world_size * unit.width)
        dist.all_gather_into_tensor(flat, mine, group=self.group)
        for name, whole, shape in zip([f'module.{each}' for each in unit.names], unit.pieces(flat), unit.shapes, strict=True):
            if name in pieces:
                yield name, whole.view(shape)
# endregion

# region solution cut
    unit = next(unit for unit in self.units if unit is not None and name.removeprefix('module.') in unit.names)
    start, stop = unit.spans[unit.names.index(name.removeprefix('module.'))]
    return whole.reshape(-1)[start:stop].clone()
# endregion
