from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from memsheaf.embed.threads import one_thread, switch


def test_one_thread_is_used_and_the_number_is_put_back() -> None:
    before = switch().read()
    with one_thread():
        assert switch().read() == 1
    assert switch().read() == before


def test_the_number_is_put_back_after_a_failure() -> None:
    before = switch().read()
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert switch().read() == before


def test_many_at_once_put_back_what_was_there() -> None:
    before = switch().read()

    def work(number: int) -> int:
        with one_thread():
            numpy.ones((200, 200)) @ numpy.ones((200, 200))
            return switch().read()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(200))) == {1}
    assert switch().read() == before
