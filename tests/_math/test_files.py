"""Files are whole or not there."""

import errno
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from calibrant._math import files
from calibrant._math.files import atomic_write, remove_left_over, write_text


def exactly(text: str) -> str:
    """A pattern that matches this text and no other."""
    return rf"\A{re.escape(text)}\Z"


def write_and_fail(path: Path) -> None:
    with files.atomic_write(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt("stopped")


def test_the_file_appears_whole(tmp_path) -> None:
    """While writing, the old content stands; afterwards the new one, and nothing else lies in the folder."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path) -> None:
    """Whatever stops the writing, also the keyboard, the old file stands and no other appears."""
    path = tmp_path / "a.txt"
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        write_and_fail(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        write_and_fail(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions(tmp_path) -> None:
    """A new file has the permissions of any new file; one that is replaced keeps its own."""
    plain, path = tmp_path / "plain", tmp_path / "a"
    plain.touch()
    with atomic_write(
        path
    ) as temporary:  # as some writers do: a new file of their own, with other permissions
        temporary.unlink()
        temporary.touch(mode=0o600)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_is_written_through(tmp_path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path) -> None:
    def write(path: Path) -> None:
        with atomic_write(path):
            raise AssertionError

    with pytest.raises(
        IsADirectoryError, match=exactly(f"{tmp_path} is a directory; give the name of a file in it.")
    ):
        write(tmp_path)
    absent = tmp_path / "absent"
    words = f"{absent / 'a.txt'} cannot be written: there is no folder {absent}."
    with pytest.raises(FileNotFoundError, match=exactly(words)):
        write(absent / "a.txt")
    with pytest.raises(OSError, match=exactly("/dev/null is not a plain file, so it cannot be replaced.")):
        write(Path("/dev/null"))
    long = tmp_path / ("x" * 300 + ".txt")
    words = f"{str(long)[:200]}… cannot be written: File name too long."
    with pytest.raises(OSError, match=exactly(words)):
        write(long)


def test_a_full_disk_is_one_sentence(tmp_path) -> None:
    """Where the disk fills up while a file is written, the sentence names the file that was wanted."""
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            raise OSError(errno.ENOSPC, "No space left on device", str(temporary))

    with pytest.raises(OSError, match=exactly(f"{path} cannot be written: No space left on device.")):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_in_other_words(tmp_path, monkeypatch) -> None:
    """Some writers say it in words of their own, which mean nothing else where the disk is full."""
    path = tmp_path / "a.pt"

    def write() -> None:
        with atomic_write(path):
            raise RuntimeError("unexpected pos 64 vs 0")

    with pytest.raises(RuntimeError, match="unexpected pos"):
        write()
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(OSError, match=exactly(f"{path} cannot be written: No space left on device.")):
        write()


def test_text_is_written_whole(tmp_path) -> None:
    """UTF-8, with the line ends it has; a folder is refused."""
    path = tmp_path / "a.txt"
    write_text(path, "γ = 3\n")
    assert path.read_bytes() == "γ = 3\n".encode()
    with pytest.raises(IsADirectoryError, match="is a directory; give the name of a file in it"):
        write_text(tmp_path, "")


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch) -> None:
    def denied(path: Path, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", denied)
    path = tmp_path / "a.txt"
    words = f"{path} cannot be written: Permission denied."
    with pytest.raises(PermissionError, match=exactly(words)), atomic_write(path):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path) -> None:
    names = (f"{'0' * 16}.npz", f"{'1' * 16}.npz", "lock")
    old, new, other = (tmp_path / f".calibrant-{name}" for name in names)
    for path in (old, new, other):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    remove_left_over(tmp_path)
    assert {*tmp_path.iterdir()} == {new, other}
