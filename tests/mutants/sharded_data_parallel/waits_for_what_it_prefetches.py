"""Starts the next units' gathers ahead, and waits for them on the spot.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution fsdp_fetch
        unit = self.units[number]
        if unit is not None:
            unit.finish_gathering()
        # Begun before this unit's arithmetic, so that the network works meanwhile.
        for other in ahead:
            following = self.units[other] if 1 <= other < len(self.units) else None
            if following is not None:
                following.finish_gathering()
        # endregion
