"""Maps of where a tensor differs: a shard, a column and a corner are told apart, on paper of forty columns and on the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grader.errors import LawBroken
from grader.judge.blame import blame_for
from grader.numerics import Hints, assert_close
from grader.numerics.maps import MOST_COLUMNS, MOST_ROWS, map_of
from grader.pictures import cells
from grader.records import Map, Message
from tests.grader.test_report import FAILURE, law, printed, report_of


def wrong(shape: tuple[int, ...], *where: slice | int) -> np.ndarray:
    """A mask that is True there."""
    mask = np.zeros(shape, bool)
    mask[where] = True
    return mask


def rows_of(mask: np.ndarray, world_size: int | None = None) -> tuple[str, ...]:
    """The map's rows."""
    seen = map_of(mask, world_size)
    assert seen is not None
    return seen.rows


def test_a_column_and_a_corner_are_told_apart() -> None:
    """Small tensors have a cell for each element; leading dims stand below each other."""
    assert rows_of(wrong((3, 5), slice(None), 2)) == ("..#..",) * 3
    assert rows_of(wrong((3, 5), slice(2, 3), slice(3, 5))) == (".....", ".....", "...##")
    assert rows_of(wrong((2, 2, 3), 1)) == ("...", "...", "###", "###")


def test_a_flat_tensor_is_cut_into_the_ranks_chunks() -> None:
    """Rank 1's chunk of three is a row, also where the last one is shorter; without ranks there is one row. What it lacks is blank."""
    assert rows_of(wrong((11,), slice(4, 8)), 3) == ("....", "####", "... ")
    assert map_of(wrong((11,), slice(None)), 3) is None  # everything differs: there is no place to find
    assert rows_of(wrong((299,), slice(200, 299)), 3) == ("." * MOST_COLUMNS, "." * MOST_COLUMNS, "#" * MOST_COLUMNS)
    assert rows_of(wrong((5,), slice(4, 5))) == ("....#",)


def test_a_large_tensor_has_few_cells_that_say_how_much() -> None:
    """At most 12 by 24; tenths between nothing and everything, and one element of a thousand is not nothing."""
    mask = wrong((1200, 2400), slice(0, 50), slice(0, 50))
    mask[-1, -1] = True
    rows = rows_of(mask)
    assert len(rows) == MOST_ROWS and {len(row) for row in rows} == {MOST_COLUMNS}
    assert rows[0][0] == "2" and rows[-1][-1] == "1" and sum(row.count(".") for row in rows) == MOST_ROWS * MOST_COLUMNS - 2


NOTHING_TO_FIND = {
    "none": wrong((4, 4)), "all": wrong((4, 4), slice(None)), "one": wrong((1,), 0), "scalar": np.array(True),
    "scattered": np.arange(9600).reshape(96, 100) % 3 == 0,
}  # fmt: skip


@pytest.mark.parametrize("mask", NOTHING_TO_FIND.values(), ids=NOTHING_TO_FIND)
def test_where_there_is_nothing_to_find_there_is_no_map(mask: np.ndarray) -> None:
    """All or nothing, a single number, or some of every part."""
    assert map_of(mask, 2) is None


def message_of(mask: np.ndarray, value: float = 1.0) -> Message:
    """What a student is told of zeros that are `value` there."""
    with pytest.raises(LawBroken) as broken:
        assert_close(np.where(mask, value, 0.0), np.zeros(mask.shape), allowed=0.5, what="y", hints=Hints(world_size=2))
    return broken.value.message


def test_a_judgement_on_values_brings_its_map() -> None:
    """Wrong numbers and numbers that are none."""
    for value in (1.0, np.nan):
        assert message_of(wrong((2, 2), 1), value).map == Map("rows are dim 0, columns dim 1", ("..", "##"))


def test_a_hidden_case_shows_no_map() -> None:
    """It could carry the shape of a hidden input."""
    error = LawBroken(message_of(wrong((2, 2), 1)))
    assert blame_for(error, in_test=True).message.map is not None
    assert blame_for(error, in_test=True).for_hidden_case("world size 3", error).message.map is None


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_map_fits_into_forty_columns(encoding: str) -> None:
    """The widest map keeps its rows whole; on a page narrower still it is left out."""
    seen = map_of(wrong((40, 100), slice(0, 20), slice(0, 50)), None)
    assert seen is not None
    report = report_of(law("fails", replace(FAILURE, map=seen)))
    text = printed(report, 40, encoding)
    assert all(any(line.endswith(row) for line in text.splitlines()) for row in seen.rows)
    assert "\n  map" in text and "\n  map" not in printed(report, 30, encoding)


def test_cells_say_by_their_size_how_much_differs() -> None:
    """All of it fills the cell, a tenth is still seen, nothing is not drawn; the sentence says it too."""
    drawn = cells.draw(Map("rows are ranks", ("#.", "1.")))
    (whole, tenth) = drawn.marked
    assert whole[2] > tenth[2] > cells.CELL / 4 and drawn.summary == "In 2 of 4 cells something differs; rows are ranks."
    assert tenth[3] == "row 1, column 0: about 10% differ" and (drawn.width, drawn.height) == (2 * cells.CELL, 2 * cells.CELL)
