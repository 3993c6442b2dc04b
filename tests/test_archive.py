"""Archives: what comes in, goes out, or is refused. Hostile names, modes and bombs: test_traversal.py."""

from __future__ import annotations

import gzip
import io
import os
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from databases import contents
from memsheaf import transfer
from memsheaf.config import Settings
from memsheaf.errors import ReadOnly, Refused
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import export, take_in

PLAIN = b"---\nname: n\ndescription: d\ntype: user\n---\nbody\n"


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("Kept", "D", "user", "stays as it is")
        yield sheaf


def zipped(place: Path, *members: tuple[str, bytes]) -> str:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename = name  # as it is: the constructor would tidy it
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return str(place)


def tarred(place: Path, *members: tuple[tarfile.TarInfo, bytes]) -> str:
    with tarfile.open(place, "w:gz") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return str(place)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def require_refused(sheaf: Sheaf, source: str, tmp_path: Path) -> None:
    """An archive is refused whole: no byte changes, in the root or beside it."""
    before = contents(tmp_path / "home")
    outside = set(os.listdir(tmp_path))

    with pytest.raises(Refused):
        take_in(sheaf.own, source, replace=True)

    assert contents(tmp_path / "home") == before
    assert set(os.listdir(tmp_path)) == outside


@pytest.mark.parametrize(
    "info",
    [
        special("hard.md", tarfile.LNKTYPE, "../../x"),
        special("soft.md", tarfile.SYMTYPE, "/etc/passwd"),
        special("inside.md", tarfile.SYMTYPE, "good.md"),
        special("pipe.md", tarfile.FIFOTYPE),
        special("device.md", tarfile.CHRTYPE),
        special("block.md", tarfile.BLKTYPE),
    ],
    ids=lambda info: info.name,
)
def test_a_link_or_a_device_refuses_the_whole_archive(info: tarfile.TarInfo, sheaf: Sheaf, tmp_path: Path) -> None:
    require_refused(sheaf, tarred(tmp_path / "a.tgz", (tarfile.TarInfo("good.md"), PLAIN), (info, b"")), tmp_path)


def test_a_link_in_a_zip_refuses_the_whole_archive(sheaf: Sheaf, tmp_path: Path) -> None:
    source = tmp_path / "a.zip"
    with zipfile.ZipFile(source, "w") as file:
        info = zipfile.ZipInfo("link.md")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")

    require_refused(sheaf, str(source), tmp_path)


def test_a_bomb_of_many_large_members_is_bounded(sheaf: Sheaf, tmp_path: Path) -> None:
    one = PLAIN + b"word \n" * 40_000
    source = zipped(tmp_path / "a.zip", *((f"n{number:03}.md", one) for number in range(200)))

    with pytest.raises(Refused):
        take_in(sheaf.own, source)


def bomb(place: Path, packing: str, unpacked: int, *members: tarfile.TarInfo) -> str:
    """A tar of sound headers, and zeros up to a size: each member claims all that follow."""
    with gzip.open(place, "wb", compresslevel=1) if packing == "gz" else place.open("wb") as file:
        for info in members:
            file.write(info.tobuf())
        for _ in range(unpacked >> 20):
            file.write(bytes(1 << 20))
    return str(place)


def test_zeros_behind_the_last_member_are_not_unpacked(tmp_path: Path) -> None:
    info = tarfile.TarInfo("empty.md")
    with pytest.raises(Refused, match="would unpack to more than"):
        list(transfer.read_archive(bomb(tmp_path / "a.tar", "gz", 60 << 20, info)))


def test_a_header_of_many_megabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 30 << 20
    with pytest.raises(Refused, match="it is not a folder"):
        list(transfer.read_archive(bomb(tmp_path / "a.tar", "plain", 30 << 20, info)))


def test_a_folder_is_read_without_following_a_link_that_comes_meanwhile(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "c.md").write_bytes(b"SECRET")
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "sub/c.md"):
        (source / name).write_bytes(PLAIN)

    members = transfer.read_archive(str(source))
    assert next(members).path == "a.md"
    (source / "b.md").unlink()
    (source / "b.md").symlink_to(secret / "c.md")
    with pytest.raises(Refused, match="link"):
        list(members)

    (source / "b.md").unlink()
    members = transfer.read_archive(str(source))
    assert next(members).path == "a.md"
    (source / "sub").rename(tmp_path / "away")
    (source / "sub").symlink_to(secret)
    with pytest.raises(Refused, match="link"):
        list(members)


def test_a_list_of_members_without_end_is_not_read(tmp_path: Path) -> None:
    header = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0)
    entries = (header + b"a.md") * (transfer.MAX_DIRECTORY_BYTES // 50 + 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 3, 3, len(entries), 0, 0)
    (tmp_path / "a.zip").write_bytes(entries + end)

    with pytest.raises(Refused, match="list of members"):
        list(transfer.read_archive(str(tmp_path / "a.zip")))


@pytest.mark.parametrize(
    "names", [("a.md", "A.md"), ("café.md", "cafe\u0301.md"), ("x/n.md", "X/n.md"), ("a.md", "a.md")]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_that_some_file_system_takes_for_one_refuse_the_archive(
    names: tuple[str, str], sheaf: Sheaf, tmp_path: Path
) -> None:
    require_refused(sheaf, zipped(tmp_path / "a.zip", *((name, PLAIN) for name in names)), tmp_path)


def test_a_member_that_meets_a_file_of_another_case_is_not_a_second_file(sheaf: Sheaf, tmp_path: Path) -> None:
    result = take_in(sheaf.own, zipped(tmp_path / "a.zip", ("USER_KEPT.md", PLAIN)))

    assert [path for path, _ in result.refused] == ["USER_KEPT.md"]
    assert [row.path for row in sheaf.list()] == ["user_kept.md"]
    assert sheaf.read("user_kept.md").body == "stays as it is\n"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not really", b"plain text", b"\x1f\x8b\x08 cut", PLAIN])
def test_what_is_no_archive_is_refused(data: bytes, sheaf: Sheaf, tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(data)

    require_refused(sheaf, str(tmp_path / "odd"), tmp_path)


def test_what_is_not_there_is_refused(sheaf: Sheaf, tmp_path: Path) -> None:
    require_refused(sheaf, str(tmp_path / "nowhere.zip"), tmp_path)


def packed(form: str, tmp_path: Path) -> tuple[Path, list[tuple[str, bytes]]]:
    """An archive of two memories that hardly compress, and what is in it."""
    place = tmp_path / f"a.{form}"
    chance = random.Random(7)
    members = [(name, PLAIN + chance.randbytes(9_000).hex().encode()) for name in ("m.md", "n.md")]
    if form == "zip":
        zipped(place, *members)
    else:
        tarred(place, *((tarfile.TarInfo(name), data) for name, data in members))
    return place, members


@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_an_archive_that_was_cut_short_imports_nothing(form: str, sheaf: Sheaf, tmp_path: Path) -> None:
    place, _ = packed(form, tmp_path)
    data = place.read_bytes()

    for part in (0.3, 0.6, 0.9):
        place.write_bytes(data[: int(len(data) * part)])
        require_refused(sheaf, str(place), tmp_path)


@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_a_flipped_byte_never_brings_in_a_garbled_text(form: str, tmp_path: Path) -> None:
    place, members = packed(form, tmp_path)
    data = place.read_bytes()

    for position in range(0, len(data), len(data) // 150):
        place.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        with suppress(Refused):
            found = {member.data for member in transfer.read_archive(str(place)) if not member.why}
            assert found <= {text for _, text in members}, position


# what goes out comes back


def test_what_goes_out_comes_back_the_same(sheaf: Sheaf, settings: Settings, tmp_path: Path) -> None:
    sheaf.put("sub folder/日本語.md", PLAIN.decode().replace("\n", "\r\n"))
    sheaf.put("free.md", "free text without a header", free=True)
    sheaf.write("Old", "D", "user", "x", path="bom.md")
    target = str(tmp_path / "out.zip")

    count = export({"": sheaf.own}, target).written
    with Sheaf.open("agent/other", settings=settings) as other:
        result = take_in(other.own, target)

        assert count == len(result.added) == 4
        assert (result.refused, result.same, result.replaced) == ([], [], [])
        for row in sheaf.list():
            assert other.read(row.path).data == sheaf.read(row.path).data
        assert [row.path for row in other.list()] == [row.path for row in sheaf.list()]
        assert len(list(other.log())) == 1, "an import is one commit"
        other.undo()
        assert other.list() == []


def test_what_was_exported_is_for_its_owner_alone(sheaf: Sheaf, tmp_path: Path) -> None:
    export({"": sheaf.own}, str(tmp_path / "out.zip"))

    with zipfile.ZipFile(tmp_path / "out.zip") as file:
        assert {member.external_attr >> 16 for member in file.infolist()} == {0o600}


def test_an_export_overwrites_nothing(sheaf: Sheaf, tmp_path: Path) -> None:
    (tmp_path / "out.zip").write_text("precious")

    with pytest.raises(Refused):
        export({"": sheaf.own}, str(tmp_path / "out.zip"))

    assert (tmp_path / "out.zip").read_text() == "precious"


def test_what_is_there_already_is_kept_unless_replacing_was_asked_for(sheaf: Sheaf, tmp_path: Path) -> None:
    kept = sheaf.read("user_kept.md")
    source = tmp_path / "in"
    source.mkdir()
    (source / "user_kept.md").write_bytes(kept.data.replace(b"stays", b"changes"))
    (source / "new.md").write_bytes(PLAIN)
    (source / "bad.md").write_bytes(b"---\nname: [\n---\nx\n")
    (source / "bytes.md").write_bytes(b"caf\xe9")
    (source / "free.md").write_bytes(b"free text\n")
    (source / "MEMORY.md").write_bytes(b"# Memory\n")
    (source / "CLAUDE.md").write_bytes(b"obey")
    (source / ".hidden.md").write_bytes(PLAIN)
    (source / "note.txt").write_bytes(b"x")
    (source / "link.md").symlink_to("new.md")

    trial = take_in(sheaf.own, str(source), dry_run=True)
    assert [row.path for row in sheaf.list()] == ["user_kept.md"]
    result = take_in(sheaf.own, str(source))

    assert trial == result
    assert (sorted(result.added), result.replaced, result.same) == (["free.md", "new.md"], [], [])
    assert sorted(path for path, _ in result.refused) == [
        "CLAUDE.md", "bad.md", "bytes.md", "link.md", "note.txt", "user_kept.md"
    ]  # fmt: skip
    assert dict(result.refused)["note.txt"] == "it is no Markdown"
    assert sheaf.read("user_kept.md") == kept
    again = take_in(sheaf.own, str(source), replace=True)
    assert (sorted(again.same), again.replaced) == (["free.md", "new.md"], ["user_kept.md"])
    assert sheaf.read("user_kept.md").body == "changes as it is\n"


def test_a_sheaf_for_reading_takes_nothing_in(settings: Settings, sheaf: Sheaf, tmp_path: Path) -> None:
    source = zipped(tmp_path / "a.zip", ("n.md", PLAIN))
    with Sheaf.open("user", settings=settings, read_only=True) as reader, pytest.raises(ReadOnly):
        take_in(reader.own, source)

    assert [row.path for row in sheaf.list()] == ["user_kept.md"]


def test_what_is_imported_cannot_confirm_itself_over_what_waits(sheaf: Sheaf, tmp_path: Path) -> None:
    claim = sheaf.write("Claim", "D", "user", "x", trust="unconfirmed")

    result = take_in(
        sheaf.own, zipped(tmp_path / "a.zip", (claim.path, claim.data.replace(b"unconfirmed", b"confirmed")))
    )

    assert [path for path, _ in result.refused] == [claim.path]
    assert sheaf.read(claim.path).trust == "unconfirmed"


def test_an_awkward_name_keeps_only_itself_out_and_is_named(sheaf: Sheaf, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "tasks" / "x").mkdir(parents=True)
    for name in ("good.md", "C# tips.md", "tasks/x/note.md"):
        (folder / name).write_bytes(PLAIN)

    done = take_in(sheaf.own, str(folder))

    assert done.added == ["good.md"]
    assert sorted(path for path, _ in done.refused) == ["C# tips.md", "tasks/x/note.md"]
