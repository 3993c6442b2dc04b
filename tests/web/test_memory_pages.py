"""Browse, one memory, its history, erase, edit and new, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from memsheaf import Settings, Sheaf
from memsheaf.guard.citations import make
from memsheaf.worktree import WorkingTree
from web.conftest import OpenPage, Serving
from web.web_site import Site

HOSTILE = "<img src=x onerror='window.__xss=1'> \"quoted\" [x](javascript:alert(1)) מזכר"


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Sheaf]:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    settings = Settings(str(home), str(home / "cache"), state=str(home / "state"), embedder="none")
    with Sheaf.open(settings=settings, cwd=str(work), by="user") as layers:
        layers.write("Prefers tabs", "indentation of code", "user", "Use **tabs**, not spaces.")
        layers.write("Deploys", "when we deploy", "project", "Deploys are on Friday mornings.")
        layers.only("project").write("Mood", "how to answer", "feedback", "Answer briefly.", trust="unconfirmed")
        yield layers


@pytest.fixture
def site(layers: Sheaf, serving: Serving, tmp_path: Path) -> Site:
    return serving(cwd=tmp_path / "work")


def names(page: Page) -> list[str]:
    return page.locator("#results .memory").all_inner_texts()


def test_one_searches_while_typing_filters_and_changes_many(
    site: Site, layers: Sheaf, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(site, "/memories")
    assert sorted(names(page)) == ["Deploys", "Mood", "Prefers tabs"]
    page.get_by_label("Search", exact=True).press_sequentially("friday")
    expect(page.locator("#results .memory")).to_have_text(["Deploys"])
    page.get_by_label("Search", exact=True).fill("")
    expect(page.locator("#results .memory")).to_have_count(3)
    page.locator("select[name=kind]").select_option("user")
    expect(page.locator("#results .memory")).to_have_text(["Prefers tabs"])
    page.locator("select[name=kind]").select_option("")
    expect(page.locator("#results .memory")).to_have_count(3)

    for do, name, said in (("Confirm", "Mood", "Confirmed 1"), ("Pin", "Mood", "Pinned 1")):
        page.get_by_label(f"Select {name}").check()
        page.get_by_role("button", name=do, exact=True).click()
        expect(page.locator(".notice")).to_contain_text(said)
    assert layers.only("project").read("feedback_mood.md").pinned
    page.get_by_label("Select all").check()
    expect(page.locator("[data-ticked]")).to_have_text("3 selected")
    page.get_by_role("button", name="Forget").click()  # in two scopes, and the form was sent before
    expect(page.locator(".notice")).to_contain_text("Forgot 3 memories")
    expect(page.locator(".empty")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#results .memory")).to_have_count(3)
    page.get_by_label("Select Deploys").check()
    page.get_by_label("Move to which scope").select_option("user")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Moved 1 memory")
    assert layers.only("user").read("project_deploys.md").name == "Deploys"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".notice")).to_contain_text("Undone")
    assert layers.only("project").read("project_deploys.md").name == "Deploys"
    (Path(layers.only("project").root) / "<b>no name?.md").write_text("Nobody can use it.")
    layers.only("project").write("Written elsewhere", "by an agent", "project", "This came while the page was open.")
    expect(page.locator("#results .memory").first).to_have_text("Written elsewhere")
    expect(page.locator("#results")).to_contain_text("<b>no name?.md")  # neither a link nor a box
    expect(page.locator("#results .memory")).to_have_count(4)


def test_a_memory_is_written_changed_restored_and_erased_without_script(
    site: Site, layers: Sheaf, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(site, "/memories", javascript=False, errors="status of 422")
    page.get_by_label("Select all").check()
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Pinned 3 memories")
    page.get_by_role("link", name="New memory").click()
    page.get_by_label("Name").fill(HOSTILE[:60])
    page.get_by_label("Text, in Markdown").fill(f"# Title\n\n{HOSTILE}\n\n- one\n- **two**")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview strong")).to_have_text("two")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice")).to_contain_text("Saved.")
    expect(page.locator("article")).to_contain_text("<img src=x")

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Name").fill("Release day")
    page.get_by_label("Text, in Markdown").fill("Releases are on Thursdays.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Release day")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("h1")).to_have_text(HOSTILE[:60])
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("h1")).to_have_text("Release day")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text, in Markdown").fill("The password is hunter2-Xk29fPq81Lm and it is on Thursdays.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Text, in Markdown")).to_have_value(
        "The password is hunter2-Xk29fPq81Lm and it is on Thursdays."
    )
    page.get_by_label("Text, in Markdown").fill("Releases are on Wednesdays.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("article")).to_contain_text("Wednesdays")

    page.get_by_role("link", name="History").click()
    expect(page.locator("section.card")).to_have_count(5)
    expect(page.locator("section.card del").filter(has_text="Thursdays").first).to_be_visible()
    page.get_by_role("button", name="Restore this text").first.click()
    expect(page.locator("article")).to_contain_text("Thursdays")
    page.get_by_role("link", name="Erase for good").click()
    page.get_by_label("Name", exact=True).fill("Release")
    page.get_by_role("button", name="Erase").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was erased")
    page.get_by_label("Name", exact=True).fill("Release day")
    page.get_by_role("button", name="Erase").click()
    expect(page.locator("h1")).to_have_text("Erased")
    found = [path for path in tmp_path.glob("home/**/*") if path.is_file() and b"Thursdays" in path.read_bytes()]
    assert found == []


def test_both_texts_are_shown_when_somebody_was_faster(site: Site, layers: Sheaf, open_page: OpenPage) -> None:
    page = open_page(site, "/memory/project/project_deploys.md/edit", errors="status of 409")
    page.get_by_label("Text, in Markdown").fill("Deploys are on Mondays.")
    expect(page.locator("#preview")).to_contain_text("Mondays")  # the script brought it
    layers.only("project").revise("project_deploys.md", "Friday mornings", "Tuesday evenings")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".beside")).to_contain_text("Tuesday evenings")
    expect(page.locator(".beside")).to_contain_text("Mondays")
    assert "Tuesday" in layers.only("project").read("project_deploys.md").body
    page.get_by_role("button", name="Replace it with mine").click()
    expect(page.locator("article")).to_contain_text("Deploys are on Mondays.")
    page.goto(f"{site.origin}/memory/project/project_deploys.md/edit")
    page.get_by_label("Text, in Markdown").fill("Deploys are on Sundays.")
    layers.only("project").forget("project_deploys.md")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("removed")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("article")).to_contain_text("Sundays")


def test_a_memory_shows_its_origin_its_places_and_what_it_was_recalled_for(
    site: Site, layers: Sheaf, open_page: OpenPage, tmp_path: Path
) -> None:
    (tmp_path / "work" / "app.py").write_text("one\n<script>window.__xss=1</script>\nthree\n")
    with WorkingTree(str(tmp_path / "work")) as tree:
        cited = str(make(tree, "app.py:2"))
    odd = "deep folder/50 & 'half' (ü) + 日本.md"
    layers.only("project").write(
        HOSTILE[:60], HOSTILE, "project", "It stands there.", path=odd, citations=[cited, HOSTILE],
        conversation=HOSTILE, supersedes=["project_deploys.md", "gone.md", "../<b>.md"],
    )  # fmt: skip
    layers.recall(f"What do you know about {HOSTILE[:40]}")
    page = open_page(site, "/memories")
    page.get_by_role("link", name=HOSTILE[:60]).click()
    assert page.url.endswith(quote(odd))
    expect(page.locator(".citation").first).to_contain_text("<script>window.__xss=1</script>")
    expect(page.locator(".citation .badge").first).to_have_text("up to date")
    expect(page.locator("#memory")).to_contain_text("gone.md removed")
    expect(page.locator("#memory")).to_contain_text("Conversation:")
    (tmp_path / "work" / "app.py").write_text("one\ntwo\nthree\n")
    page.reload()
    expect(page.locator(".citation .badge").first).to_have_text("outdated")
    page.goto(f"{site.origin}/memories?drifted=1")
    expect(page.locator("#results .memory")).to_have_count(1)
    for text, drifted in (("one\n<script>window.__xss=1</script>\nthree\n", 0), ("two\n", 1)):
        (tmp_path / "work" / "app.py").write_text(text)
        page.get_by_role("button", name="Check all references").click()
        expect(page.locator(".notice")).to_contain_text(f"Checked 1 memory with references; outdated: {drifted}.")
        expect(page.locator("#results .memory")).to_have_count(drifted)
    page.locator("#results .memory").click()
    page.get_by_role("button", name="Pin").click()
    expect(page.locator(".badge", has_text="pinned")).to_be_visible()
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("button", name="Undo").click()
    page.goto(f"{site.origin}/memory/project/project_deploys.md")
    expect(page.locator(".warning")).to_contain_text("may be outdated")
    page.goto(f"{site.origin}/memories")
    expect(page.locator(".badge", has_text="may be outdated")).to_be_visible()
