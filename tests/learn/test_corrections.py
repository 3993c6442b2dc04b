"""Which memory a new fact takes the place of: the one it corrects, and no other."""

from __future__ import annotations

from memsheaf import Sheaf
from memsheaf.learn.corrections import find_corrected
from memsheaf.recall.turns import Proposal


def aim(sheaf: Sheaf, old: str, new: str, *, kind: str = "project") -> Proposal:
    sheaf.remember("Something known", "What was said", kind, old)
    return find_corrected(sheaf, Proposal(" ".join(new.split()[:6]), "d", "project", new))


def replaces(sheaf: Sheaf, old: str, new: str) -> bool:
    """Whether a new sentence replaces an old one, which is then forgotten."""
    found = aim(sheaf, old, new).replaces
    sheaf.forget("project_something-known.md")
    return found == "project_something-known.md"


CORRECTIONS = [
    ("The gateway of the shop listens on port 8080.", "The gateway of the shop listens on port 9090."),
    ("Releases go out on Fridays.", "Releases go out on Mondays now, not on Fridays."),
    ("Staging runs PostgreSQL 13.4.", "Staging is no longer on PostgreSQL 13.4, it's on 15.8."),
    ("We use npm.", "Use pnpm, not npm."),
    ("The user prefers spaces.", "I prefer tabs, not spaces."),
]


def test_a_correction_finds_what_it_corrects(sheaf: Sheaf) -> None:
    assert [old for old, new in CORRECTIONS if not replaces(sheaf, old, new)] == []


SAYS_MORE = [
    (
        "Our deploys go out on Thursdays at 10, after standup.",
        "Deploys are on Tuesdays now, same hour, for the ferry.",
    ),
    ("Anna leads QA and Bob leads ops.", "Carla now leads QA."),
    ("We use Postgres 16, MongoDB 7 and Redis 7.", "We use Postgres 17 now."),
    ("We deploy on Fridays only with two approvals.", "We now deploy on Mondays."),
    ("The port is 8443. It is open to all.", "The port is 9443 now."),
]


def test_a_memory_that_says_more_than_its_correction_stays(sheaf: Sheaf) -> None:
    assert [old for old, new in SAYS_MORE if replaces(sheaf, old, new)] == []


OTHERS = [
    ("I drink coffee in the morning", "I drink tea, not coffee, in the evening"),
    ("We use Jest for unit tests", "We use Playwright, not Jest, for e2e tests"),
    ("The timeout of the API is 30 seconds", "The timeout of the API is 60 seconds in staging now"),
    ("We use Redis for caching", "We use Redis for queues now"),
    ("Backups run on Mondays", "Backups run on Mondays in Asia now"),
    ("I use vim for Python", "I use VS Code, not vim, for TypeScript"),
    ("My brother Leo lives in Bern now", "Actually, my sister Mia lives in Bern."),
    ("We use pnpm in the frontend", "Use npm, not pnpm, in the docs folder"),
    ("The port is 7000 now", "Actually the staging port is 5001"),
    ("When do we deploy?", "We deploy on Thursdays, not Fridays"),
    ("I have a daughter called Mia", "I have a daughter called Lea"),
    ("My dog is called Rex", "My dog is called Bella"),
    ("The backup runs on host a1", "The backup runs on host b2"),
    ("My email is a@x.example", "My work email is b@x.example"),
    ("The API timeout is 30s", "The API timeout is 60s on staging"),
    ("My manager is Ute", "My manager is Kai while Ute is on leave"),
    ("Invoices go to Rita", "Invoices go to Sven when Rita is away"),
    ("Tests run on Python 3.11", "Tests run on Python 3.12 too now"),
    ("The office is closed on Mondays", "The office is closed on Fridays in July now"),
    ("服务器1有16GB内存。", "服务器2有32GB内存。"),
    ("The API port is 9443.", "The API now returns 404."),
    ("We deploy the shop on Fridays.", "We now deploy the blog on Mondays."),
    ("Redis holds the sessions.", "Redis no longer holds the locks."),
    ("The cron job sends the invoices.", "The cron job no longer sends the reminders; that's the worker's job."),
    ("We meet the client on Mondays.", "We now meet the vendor on Fridays."),
    ("The job runs at 9.", "The job now uses 12 cores."),
    ("The DB has 3 replicas.", "The DB is now version 17."),
    ("Use tabs in Makefiles.", "Use spaces in YAML instead of tabs."),
    ("Bob reports to Anna.", "Anna reports to Bob."),
    ("I like C.", "I like C++."),
    (
        "The freeze for the timetable starts next week.",
        "Jonas goes on leave next Monday, Sofia takes over the frontend.",
    ),
    ("Deploys need two approvals.", "Deploys are on Tuesdays now."),
    ("Spaces cost 20 dollars a month.", "Use tabs, not spaces."),
    ("We use npm to publish the widget library to the registry.", "Use pnpm, not npm."),
    ("Kim owns billing.", "Kim owns search."),
    ("Alice's phone extension is 4411.", "Bob's phone extension is 4412."),
    ("The login timeout is 30 seconds.", "The upload timeout is 90 seconds."),
    ("The backup of the orders runs at 02:00.", "The backup of the users runs at 03:00."),
    ("Their old gateway is switched off in ten days.", "The heating must never be switched off by code in winter."),
    ("Releases go out on Fridays.", "Releases are signed by Kim."),
    ("The staging host is staging-3.", "The database host of production is db-7."),
    ("We use PostgreSQL for orders.", "We no longer eat lunch on Fridays."),
    ("Tests run with uv run pytest.", "From now on write commit messages in English."),
    ("Alice's birthday is on 3 May.", "Bob's birthday is on 9 June."),
]


def test_another_fact_takes_nobodys_place(sheaf: Sheaf) -> None:
    assert [old for old, new in OTHERS if replaces(sheaf, old, new)] == []


def test_a_sentence_with_a_rule_that_the_new_one_does_not_repeat_stays(sheaf: Sheaf) -> None:
    found = aim(
        sheaf,
        "Secrets live in Vault under kv/harbour, never in .env files.",
        "We no longer use Vault under kv/harbour, it's kv/ferries now.",
        kind="feedback",
    )

    assert found.replaces == ""
    assert found.supersedes
    assert found.content == "We no longer use Vault under kv/harbour, it's kv/ferries now."


def test_only_a_number_is_replaced_without_a_trace(sheaf: Sheaf) -> None:
    found = aim(sheaf, "The deadline of the audit is 2026-12-01.", "The deadline of the audit is 2026-12-15.")

    assert found.content == "The deadline of the audit is 2026-12-15."


def test_what_is_unconfirmed_is_not_aimed_at(sheaf: Sheaf) -> None:
    sheaf.remember("Audit", "d", "project", "The deadline of the audit is 2026-12-01.", trust="unconfirmed")

    new = Proposal("Audit", "d", "project", "The deadline of the audit is 2026-12-15.")
    assert find_corrected(sheaf, new).replaces == ""
