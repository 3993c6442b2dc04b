"""What the documents say holds: links lead somewhere, nothing public is left out.

test_examples.py runs their examples.
"""

from __future__ import annotations

import re
from pathlib import Path

import memsheaf
from cases import each_case
from memsheaf import Commit, Finding, Memory, Page, Proof, Row, Scope, Settings, Sheaf, config, errors, frontmatter
from memsheaf import memory as memory_module
from memsheaf.guard import paths
from memsheaf.index import catalog
from memsheaf.recall import inject
from memsheaf.store import atomic_replace
from memsheaf.tools import TOOLS, schema

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "memsheaf"
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("0*.md"))
PAGES = sorted({*DOCS.rglob("*.md")} - {*DECISIONS})
EVERY_PAGE = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")})


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)[^`].*?\1", "", text)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def mentions(text: str, name: str) -> bool:
    """Whether a text names this in code: alone, as the start of a call, or with its arguments."""
    return re.search(rf"`[^`\n]*(?<!\w){re.escape(name)}(?!\w)[^`\n]*`", text) is not None


def test_every_relative_link_leads_somewhere() -> None:
    wrong = []
    for page in EVERY_PAGE:
        for target in re.findall(r"\]\(<?([^)<>\s]+)>?\)", without_code(page.read_text(encoding="utf-8"))):
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            is_local = not re.match(r"[a-z]+:", target)
            if is_local and not (found.exists() and (not anchor or anchor in anchors(found))):
                wrong.append(f"{name_of(page)} links to {target}")
    assert wrong == []


def test_every_public_name_method_and_error_is_in_the_reference() -> None:
    methods = [name for name in vars(Sheaf) if not name.startswith("_")]
    raised = [
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    ]
    text = text_of("docs/library.md")
    assert [name for name in (*memsheaf.__all__, *methods, *raised) if not mentions(text, name)] == []


@each_case("value", [Memory, Row, Page, Commit, Proof, Finding, Scope])
def test_every_field_of_a_value_is_in_its_row(value: type) -> None:
    row = re.search(rf"^\| `{value.__name__}` \|(.*)$", text_of("docs/library.md"), re.MULTILINE)
    assert row is not None
    named = {word for code in re.findall(r"`([^`]*)`", row[1]) for word in re.findall(r"\w+", code)}
    assert {name for name, found in vars(value).items() if not name.startswith("_") and not callable(found)} <= named


@each_case("tool", TOOLS)
def test_every_tool_and_each_of_its_arguments_is_in_the_reference(tool: object) -> None:
    described = schema(tool)  # type: ignore[arg-type]
    row = re.search(rf"^\| `{described['name']}` \|([^|]*)\|", text_of("docs/library.md"), re.MULTILINE)
    assert row is not None, described["name"]
    assert re.findall(r"`(\w+)`", row[1]) == list(described["input_schema"]["properties"])


def test_every_setting_is_in_the_reference() -> None:
    text = text_of("docs/settings.md")
    for name in {*Settings._fields, *(key.partition(".")[0] for key in config.DEFAULTS)}:
        assert re.search(rf"^\|.*`\[?{name}\]?`", text, re.MULTILINE), name


def test_every_environment_variable_is_in_the_reference() -> None:
    found = set(re.findall(r"MEMSHEAF_[A-Z_]+", (SOURCE / "config.py").read_text(encoding="utf-8")))
    assert found == set(re.findall(r"`(MEMSHEAF_[A-Z_]+)`", text_of("docs/settings.md")))
    assert found <= set(re.findall(r"MEMSHEAF_[A-Z_]+", config.__doc__ or ""))


def test_every_key_of_a_header_is_in_the_format() -> None:
    written = memory_module.compose(
        name="n", description="d", kind="user", body="b", created="2026-11-15", updated="2026-11-15", source="s",
        trust="unconfirmed", conversation="c", citations=["a"], pinned=True, expires="2026-11-16",
        supersedes=["a.md"], reason="r",
    )  # fmt: skip
    for field in written.page.fields:
        assert re.search(rf"^\|.*`{field.key}`.*\|.*\|", text_of("docs/format.md"), re.MULTILINE), field.key


@each_case(
    "said",
    [
        f"over {memory_module.MAX_MEMORY_BYTES >> 10} KiB",
        f"the file at most {memory_module.MAX_MEMORY_BYTES >> 10} KiB",
        f"over {atomic_replace.READ_LIMIT >> 20} MiB",
        f"`name` has at most {memory_module.NAME_LIMIT} bytes",
        f"`description` at most {memory_module.DESCRIPTION_LIMIT}",
        f"any value at most {memory_module.VALUE_LIMIT:,}",
        f"the header at most {frontmatter.HEADER_LIMIT >> 10} KiB",
        f"a line of the text at most {memory_module.LINE_LIMIT >> 10} KiB",
        f"at most {paths.MAX_SLUG_CHARS} characters and ends with a whole word",
        f"a part has at most {paths.MAX_STEM_BYTES} bytes, the path {paths.PATH_LIMIT}",
        f"at most {paths.FOLDER_LIMIT} folders deep",
        f"in full, up to {inject.CONTEXT_BYTES:,} bytes",
        f"at most {catalog.MAX_LINE_CHARS} characters",
        f"at most {catalog.MAX_LINES} lines and {catalog.MAX_BYTES:,} bytes",
        f"pinned ones ({catalog.MAX_PINNED} at most)",
    ],
)
def test_the_numbers_in_the_format_are_those_of_the_code(said: str) -> None:
    assert said in " ".join(text_of("docs/format.md").split())


def test_every_reserved_name_is_in_the_format() -> None:
    text = text_of("docs/format.md").lower()
    for name in paths.RESERVED_FILES | {f"{folder}/" for folder in paths.RESERVED_FOLDERS}:
        assert f"`{name}`" in text, name


def test_every_room_has_its_place_in_the_architecture() -> None:
    text = text_of("docs/architecture.md").partition("```")[2].partition("```")[0]
    rooms = {f"{path.name}/" for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
    assert sorted(name for name in rooms | modules if not re.search(rf"(?m)(^| ){name}( |$)", text)) == []


@each_case("page", ["docs/reliability.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    named = set(re.findall(r"`((?:tests|docs|src|benchmarks)/[\w./-]*)`", text_of(page)))
    assert named, f"{page} names no files"
    assert [
        path for path in sorted(named) if not (ROOT / path).is_file() and not any((ROOT / path).glob("*.*"))
    ] == []


def test_the_list_of_decisions_names_each_page_once_under_its_number() -> None:
    listed = re.findall(
        r"^\| (\d+) \| \[.*\]\((\d{4}-[\w-]+\.md)\) \|$", (DOCS / "decisions/README.md").read_text(), re.M
    )
    assert [name for _, name in listed] == [page.name for page in DECISIONS]
    assert [int(number) for number, _ in listed] == [int(page.name[:4]) for page in DECISIONS]
    assert len({page.name[:4] for page in DECISIONS}) == len(DECISIONS)


def test_the_site_lists_every_page_once() -> None:
    listed = re.findall(r"^ +- (?:[^:\n]*: )?([\w/-]+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)
    index = text_of("docs/decisions/README.md")
    assert [page.name for page in DECISIONS] == re.findall(r"\]\(([^)]*)\)", index)


def test_the_changelog_knows_the_present_version() -> None:
    assert re.search(rf"^## \[{re.escape(memsheaf.__version__)}\]", text_of("CHANGELOG.md"), re.MULTILINE)
