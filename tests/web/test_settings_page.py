"""Settings in a browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from web.conftest import OpenPage, Serving


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
    expect(page.locator("#set-retention_days-error")).to_contain_text("must be a number")
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
