"""The rendezvous store of the ranks, kept by the judge."""

from __future__ import annotations

from collections.abc import Iterable

from grader.wire.calls import Call
from grader.wire.words import Malformed

TOTAL_LIMIT_BYTES = 256 * 2**20
NUM_KEYS_LIMIT = 100_000


class Store:
    """Keys and values. `enter` answers at once, or keeps a `get` or `wait` until its keys are there."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._num_bytes = 0
        self._sleepers: list[Call] = []

    def enter(self, call: Call) -> Iterable[tuple[Call, bytes]]:
        """(call, value) of everything that can be answered now."""
        if call.op in ("store_get", "store_wait"):
            self._sleepers.append(call)
        else:
            yield call, self._answer(call)
        for sleeper in list(self._sleepers):
            keys = sleeper.word.keys or [sleeper.word.key]
            if all(key in self._values for key in keys):
                self._sleepers.remove(sleeper)
                yield sleeper, self._values[keys[0]] if sleeper.op == "store_get" else b""

    def _answer(self, call: Call) -> bytes:
        word, values, value = call.word, self._values, bytes(call.body)
        old = values.get(word.key, b"")
        match call.op:
            case "store_set":
                self._put(word.key, value)
            case "store_append":
                self._put(word.key, old + value)
            case "store_add":
                return self._put(word.key, str(_number(old) + word.amount).encode())
            case "store_compare_set":
                split = word.split if isinstance(word.split, int) else 0
                return self._put(word.key, value[split:]) if old == value[:split] else old
            case "store_check":
                return b"1" if all(key in values for key in word.keys) else b"0"
            case "store_delete":
                self._num_bytes -= len(old)
                return b"1" if values.pop(word.key, None) is not None else b"0"
            case "store_count":
                return str(len(values)).encode()
        return b""

    def _put(self, key: str, value: bytes) -> bytes:
        self._num_bytes += len(value) - len(self._values.get(key, b""))
        self._values[key] = value
        if len(self._values) > NUM_KEYS_LIMIT or self._num_bytes > TOTAL_LIMIT_BYTES:
            raise Malformed(f"fills the rendezvous store beyond {TOTAL_LIMIT_BYTES} bytes or {NUM_KEYS_LIMIT} keys")
        return value


def _number(value: bytes) -> int:
    try:
        return int(value or b"0")
    except ValueError:
        raise Malformed("adds a number to a key of the store that holds none") from None
