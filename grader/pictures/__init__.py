"""What a stored observation looks like: who computed, sent and waited when, and who waits for whom for ever."""
