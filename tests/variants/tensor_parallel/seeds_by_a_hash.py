"""Seeds by a hash of seed and rank, leaves the shared state to torch's own fork_rng, and skips the fork where nothing is drawn."""
# region solution rank_random_init
    import hashlib

    name = f"seed {seed}, rank {dist.get_rank(group)}"
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(number)
        self.states = random_states()
# endregion
# region solution rank_random_fork
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        restore_random_states(self.states)
        try:
            yield
        finally:
            self.states = random_states()
# endregion
# region solution rank_dropout
    if not self.training or self.p == 0:
        return x
    with self.random.fork():
        return F.dropout(x, self.p, training=True)
# endregion
