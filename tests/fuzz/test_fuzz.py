"""The checks of the fuzz drivers, on inputs made of the pieces that matter; the drivers go further."""

from __future__ import annotations

import os
import runpy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVERS = ("frontmatter", "names", "catalog")
LOADED = {name: runpy.run_path(os.path.join(HERE, f"fuzz_{name}.py")) for name in DRIVERS}
EXAMPLES = {"frontmatter": 150, "names": 200, "catalog": 15}


@pytest.mark.parametrize("driver", DRIVERS)
def test_promises_hold_for_inputs_made_of_the_pieces_that_matter(driver: str) -> None:
    pieces = st.one_of(
        st.sampled_from(LOADED[driver]["WORDS"]), st.binary(max_size=4), st.text(max_size=4).map(str.encode)
    )

    @given(st.lists(pieces, max_size=14).map(b"".join))
    @settings(max_examples=EXAMPLES[driver], derandomize=True)
    def run(data: bytes) -> None:
        LOADED[driver]["check"](data)

    run()
