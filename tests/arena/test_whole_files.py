"""Outputs are whole, and what is no regular file is not replaced."""

import os
import stat
import threading
from pathlib import Path

import pytest

from arena.whole_files import write_whole


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def write(stream) -> int:
        assert path.read_text() == "old"
        return stream.write("new é")

    assert write_whole(path, write) == 5
    assert path.read_text(encoding="utf-8") == "new é"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_whole(path, lambda stream: 1 / 0)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_whole(path, lambda stream: stream.write("hello"))
    reader.join()
    assert read == ["hello"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    for text in ("one", "two"):
        write_whole(link, lambda stream, text=text: stream.write(text))
        assert link.is_symlink()
        assert target.read_text() == text


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, lambda stream: stream.write("x"))
