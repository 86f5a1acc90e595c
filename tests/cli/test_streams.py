"""Output whose reader has left."""

from __future__ import annotations

import os

import pytest

from calibrant.cli.streams import outlet
from command_line import call


@pytest.mark.parametrize("text", ["pass", 100_000 * "pass"], ids=["flushed", "written"])
def test_a_reader_that_leaves_ends_nothing(text) -> None:
    """What goes into a pipe that nobody reads is dropped, as often as written; the pipe itself raises."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError, match="Broken pipe"):
        os.write(writing, text.encode())
    with os.fdopen(writing, "w") as bare:
        stream = outlet(bare)
        for _ in range(2):
            assert stream.write(text) == len(text)
            stream.flush()
        assert not stream.isatty()


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["check", "absent.csv"], 2)])
def test_without_any_output_the_exit_code_stays(tmp_path, words, code) -> None:
    """Python has None for a stream that was closed before it began, and flushes nothing at its end."""
    assert outlet(None) is None
    assert call(*words, folder=tmp_path, closed=True).returncode == code
