"""Work, audit and settings in a browser."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from memsheaf import Settings
from memsheaf.work import tasks
from memsheaf.work.layers import Layers
from memsheaf.work.notes import Notes
from web.conftest import PHONE, OpenPage, Serving

HOSTILE = "</div><script>window.__xss = 1</script><img src=x onerror='window.__xss=2'> [x](javascript:alert(1)) مرحبا"


def test_work_is_shown_and_an_audit_is_settled_and_undone(
    serving: Serving, open_page: OpenPage, tmp_path: Path
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    settings = Settings(str(home), str(home / "cache"), state=str(home / "state"), embedder="static")
    with Layers.open(settings=settings, cwd=str(work), by="user") as layers:
        task = tasks.start(layers, HOSTILE[:60], goal=HOSTILE, phases=3, slug="parser")
        task.verify("login", HOSTILE)
        Notes(layers.project).block(f"waits for {HOSTILE[:40]}")
        kept = layers.project.remember("Deploys", HOSTILE, "project", "Deploys are on Friday.", trust="unconfirmed")
        layers.project.remember("Old", "d", "project", "The freeze ends on Monday.", expires="2026-01-01")
    page = open_page(serving(cwd=work), "/work", width=PHONE, javascript=False)
    expect(page.locator("#work")).to_contain_text("1 verified")
    expect(page.locator("#work .prose")).to_contain_text("waits for </div><script>")
    page.get_by_role("link", name=re.compile("script")).first.click()
    expect(page.locator("#task")).to_contain_text("no report yet")

    page.get_by_role("link", name="Work").first.click()
    page.get_by_role("link", name="Audit").click()
    page.get_by_role("button", name="Confirm it").click()
    expect(page.locator(".notice")).to_contain_text("Confirmed.")
    assert page.get_by_role("button", name="Confirm it").count() == 0
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Confirm it")).to_have_count(1)
    page.get_by_role("button", name="Forget it").click()
    assert page.get_by_role("button", name="Forget it").count() == 0
    with Layers.open(settings=settings, cwd=str(work)) as layers:
        assert layers.read(kept.path).trust == "unconfirmed"
        assert layers.project.reader.named("project", "Old") is None


def test_an_address_of_no_work_is_not_found(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    site = serving(cwd=tmp_path / "work")
    for odd in ("user", "project/task/..%2F..", "project/task/none", "nobody/audit", "..%2F/audit"):
        assert site.ask("GET", f"/work/{odd}").status == 404, odd


def test_settings_are_saved_checked_and_refused(serving: Serving, open_page: OpenPage, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "config.toml"
    file.write_text("# mine\nretention_days = 20  # short\n")
    site = serving()
    page = open_page(site, "/settings", javascript=False, errors="status of 4")
    page.get_by_label("retention_days").fill("soon")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_label("retention_days")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#set-retention_days-error")).to_contain_text("must be a number of days")
    assert file.read_text() == "# mine\nretention_days = 20  # short\n"
    page.get_by_label("retention_days").fill("40")
    page.get_by_role("button", name="Save").first.click()
    expect(page.locator(".notice")).to_contain_text("Saved.")
    assert file.read_text() == "# mine\nretention_days = 40  # short\n"

    page.get_by_label("learning.policy").select_option("suggest")
    file.write_text("# theirs\n")
    page.locator("section", has=page.get_by_label("learning.policy")).get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("changed elsewhere")
    expect(page.get_by_label("learning.policy")).to_have_value("suggest")
    page.locator("section", has=page.get_by_label("learning.policy")).get_by_role("button", name="Save").click()
    assert file.read_text() == '# theirs\n\n[learning]\npolicy = "suggest"\n'

    csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    version = page.locator("input[name=version]").first.get_attribute("value") or ""
    for key, value in (("model.url", "http://x.test"), ("embedder.name", "openai:x"), ("tools", "maybe")):
        site.ask("POST", "/settings", {"csrf": csrf, "version": version, key: value})
    assert file.read_text() == '# theirs\n\n[learning]\npolicy = "suggest"\n'
