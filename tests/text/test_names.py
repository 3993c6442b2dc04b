"""Names, descriptions and file names that are made from what somebody said."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.guard.paths import MAX_SLUG_CHARS, file_name
from memsheaf.text.common_words import common_words
from memsheaf.text.sentences import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    is_made_from,
    make_description,
    make_name,
)

# A sentence, its name ("=" where that is the sentence), and the name of its file without the type.
NAMED = [
    ("no emojis in commit messages", "=", "no-emojis-commit-messages"),
    ("btw I'm allergic to peanuts", "I'm allergic to peanuts", "allergic-peanuts"),
    ("I'm vegan", "=", "vegan"),
    ("No. We never ship on a Friday.", "We never ship on a Friday", "never-ship-friday"),
    ("No. 5 is the test account", "=", "no-5-test-account"),
    ("ok so the port is 8443 and not 8080", "the port is 8443 and not 8080", "port-8443-not-8080"),
    ("well actually the release train leaves on Mondays", "the release train leaves on Mondays", None),
    ("right, so Tom is vegetarian", "Tom is vegetarian", "tom-vegetarian"),
    ("we decided against Kafka", "=", "decided-against-kafka"),
    ("My daughter's birthday is on 3 May", "=", "daughter-birthday-3-may"),
    (
        "Unless the customer pays in advance, invoices are due in 30 days",
        "Unless the customer pays in advance, invoices are due in 30…",
        "unless-customer-pays-advance-invoices",
    ),
    (
        "For TypeScript we use strict mode, no any, and named exports only",
        "For TypeScript we use strict mode, no any, and named…",
        "typescript-strict-mode-no-named",
    ),
    (
        "The design doc is at https://docs.example.com/spec?id=42&rev=7#intro, ask Priya for access",
        "The design doc is at…",
        "design-doc",
    ),
    ("So far we use Jest everywhere", "=", "jest-everywhere"),
    ("Well-tested code comes first", "=", "well-tested-code-comes-first"),
    (
        "just so you know, Priya owns the billing service until Marcus is back from parental leave in February",
        "Priya owns the billing service until Marcus is back from…",
        "priya-owns-billing-service-until",
    ),
    (
        "We use 4 spaces in Python and 2 in TypeScript, because the QA people need a consistent diff view",
        "We use 4 spaces in Python and 2 in TypeScript…",
        "4-spaces-python-2-typescript",
    ),
    (
        "Only merge to main when two people approved, except for typos in docs",
        "Only merge to main when two people approved, except for…",
        "only-merge-main-two-people-approved",
    ),
    (
        "All timestamps in the API are UTC unless the field name ends in _local",
        "All timestamps in the API are UTC unless the field name…",
        "timestamps-api-utc-unless-field-name",
    ),
    (
        "If the migration takes longer than 10 minutes, abort it and call Dana",
        "If the migration takes longer than 10 minutes, abort it and…",
        "migration-takes-longer-than-10-minutes",
    ),
    (
        "Run `pnpm test --filter web` before pushing, not the whole suite",
        "Run `pnpm test --filter web` before pushing, not the whole…",
        "run-pnpm-test-filter-web-before",
    ),
    (
        "never run `make deploy` from a laptop, it has to go through the pipeline",
        "never run `make deploy` from a laptop, it has to go through…",
        "never-run-make-deploy-laptop",
    ),
    (
        "We can't upgrade to Node 22 until the native sharp bindings are rebuilt for Alpine",
        "We can't upgrade to Node 22 until the native sharp bindings…",
        "no-upgrade-node-22-until-native-sharp",
    ),
    (
        "The ETL job fails silently if the bucket eu-raw-events is empty, which happens on bank holidays",
        "The ETL job fails silently if the bucket eu-raw-events…",
        "etl-job-fails-silently-bucket",
    ),
    ("Please keep answers under 200 words", "keep answers under 200 words", "keep-answers-under-200-words"),
    ("Übrigens, wir deployen freitags nicht nach 14 Uhr", "wir deployen freitags nicht nach 14 Uhr", None),
    (
        "wir deployen freitags nicht nach 14 Uhr, außer es ist ein dringender Hotfix",
        "wir deployen freitags nicht nach 14 Uhr, außer…",
        "deployen-freitags-nicht-nach-14-uhr",
    ),
    (
        "die Rechnungen müssen bis zum 5. des Monats raus sein, sonst gibt es Ärger",
        "die Rechnungen müssen bis zum 5. des Monats raus…",
        "rechnungen-bis-5-monats-raus",
    ),
    ("Ich mag Tabs nicht", "=", "tabs-nicht"),
    ("Never run terraform apply without asking me", "=", "never-run-terraform-apply-without-asking"),
    ("Nie terraform apply ausführen, ohne mich zu fragen", "=", "nie-terraform-apply-ausführen-ohne"),
    ("Nunca ejecutes terraform apply sin preguntarme", "=", "nunca-ejecutes-terraform-apply-sin"),
    (
        "Only deploy to production after the staging tests have passed",
        "Only deploy to production after the staging tests…",
        "only-deploy-production-after",
    ),
    (
        "Meine Tochter heißt Frieda, mein Sohn heißt Jonte, und der Hund heißt Müsli",
        "Meine Tochter heißt Frieda, mein Sohn heißt Jonte, und…",
        "tochter-frieda-sohn-jonte",
    ),
    (
        "Building No. 5 has no lift, so ship heavy parcels to No. 7.",
        "Building No. 5 has no lift, so ship heavy parcels to No. 7",
        "building-no-5-no-lift-ship-heavy-parcels",
    ),
    (
        "We tried event sourcing in 2023, it failed, and we don't want to try it again.",
        "We tried event sourcing in 2023, it failed, and…",
        "tried-event-sourcing-2023-failed",
    ),
    (
        "my sister-in-law's name is spelled Kateryna (with a K and a y)",
        "my sister-in-law's name is spelled Kateryna (with a K and…",
        "sister-in-law-name-spelled-kateryna-k",
    ),
    (
        "On n'utilise jamais de variables globales dans le module de paiement, sauf pour la configuration",
        "On n'utilise jamais de variables globales dans le module…",
        "jamais-variables-globales-module",
    ),
    (
        "Mi hermana Lucía viene de visita del 3 al 10 de diciembre, así que no puedo tener reuniones por la tarde",
        "Mi hermana Lucía viene de visita del 3 al 10 de diciembre…",
        "hermana-lucía-viene-visita",
    ),
    ("No uses Redux en proyectos nuevos, usamos Zustand", "=", "no-redux-proyectos-nuevos-zustand"),
    (
        "O servidor de homologação fica em hml.empresa.com.br e só funciona com a VPN ligada",
        "O servidor de homologação fica em hml.empresa.com.br e só…",
        "servidor-homologação-hml-empresa-com-br",
    ),
    (
        "Preferisco spiegazioni brevi con un esempio di codice alla fine",
        "Preferisco spiegazioni brevi con un esempio di codice alla…",
        "spiegazioni-brevi-esempio-codice",
    ),
    ("Nie używamy już Jenkinsa, wszystkie buildy są na GitLabie", "=", "nie-jenkinsa-buildy-gitlabie"),
    (
        "Мы не деплоим в пятницу после обеда, если это не срочный фикс",
        "Мы не деплоим в пятницу после обеда, если это не срочный…",
        "не-деплоим-пятницу-после",
    ),
    ("コミットメッセージは英語で書いてください", "=", "コミットメッセージは英語で書いてください"),
    (
        "공용 서버에서는 절대로 `make reset` 명령을 실행하지 마세요",
        "=",
        "공용-서버에서는-절대로-make-reset-명령을-실행하지-마세요",
    ),
    (
        "共有サーバーでは絶対に `make reset` を実行しないでください",
        "=",
        "共有サーバーでは絶対に-make-reset-を実行しないでください",
    ),
    ("Il sig. Brambati preferisce le relazioni in PDF", "=", "sig-brambati-preferisce-relazioni-pdf"),
    ("金曜日にデプロイしないでください", "=", "金曜日にデプロイしないでください"),
    ("The US region runs version 4.2", "=", "us-region-runs-version-4-2"),
    ("The backup runs at 2 am", "=", "backup-runs-2am"),
    ("The shop uses Go", "=", "shop-go"),
    ("The tests are in tests/e2e", "=", "tests-e2e"),
    (
        "If a pull request touches the billing module, ask Priya for a review first",
        "If a pull request touches the billing module, ask Priya for…",
        "pull-request-touches-billing-module",
    ),
    ("我对花生过敏，点餐时请注意", "=", "我对花生过敏-点餐时请注意"),
]


@each_case("sentence, name, slug", NAMED)
def test_a_sentence_is_named_as_a_careful_person_would(sentence: str, name: str, slug: str | None) -> None:
    assert make_name(sentence) == (sentence if name == "=" else name)
    if slug:
        assert file_name("user", make_name(sentence), lambda path: False) == f"user_{slug}.md"


def test_the_type_stands_once_in_the_name_of_a_file() -> None:
    name = "In this project we never push on Fridays unless Mira agrees"
    assert file_name("project", name, lambda path: False) == "project_never-push-fridays-unless-mira-agrees.md"
    assert file_name("project", "project", lambda path: False) == "project_project.md"


RESTRICTED = [
    "We deploy on Fridays from the release branch, but never after 2pm and not in December because of a freeze",
    "Wir deployen jeden Freitag aus dem Release-Branch, es sei denn, der Kunde hat eine Demo angesetzt",
    "Nous déployons tous les vendredis depuis la branche release, sauf si le client a prévu une démo",
    "Desplegamos todos los viernes desde la rama release, a menos que el cliente tenga una demo preparada",
    "Facciamo il deploy ogni venerdì dal ramo release, a meno che il cliente non abbia una demo",
    "Fazemos deploy toda sexta-feira a partir da branch release, a não ser que o cliente tenha uma demo",
    "Robimy deploy w każdy piątek z gałęzi release, chyba że klient ma zaplanowane demo",
    "Мы деплоим каждую пятницу из релизной ветки, кроме тех недель, когда у клиента демо",
    "You can push straight to main for typo fixes in the docs, provided the build is green",
    "The nightly job may delete temporary tables, as long as no analyst is still logged in",
    "I'm fine with rebasing shared branches, before the review has started",
    "the export to CSV works for all reports (except the quarterly one, which needs Excel) since version 4.2",
    "Tests always run against Postgres 16 and Redis 7 in docker, apart from the smoke tests",
    "Ich esse alles, was auf den Tisch kommt, nur keine Pilze und keine Innereien",
    "The API returns money as integers in the smallest unit; amounts in reports aren't rounded",
]


@each_case("sentence", RESTRICTED)
def test_a_name_without_the_exception_is_marked(sentence: str) -> None:
    assert make_name(sentence).endswith("…")


def test_a_description_is_the_fact_without_how_people_begin() -> None:
    long = "so the import of the old customers runs at night " + "and takes about an hour " * 5
    assert make_description("well, tabs it is") == "tabs it is"
    assert make_description(long).endswith("takes about an hour…")
    assert len(make_description(long)) <= MAX_DESCRIPTION_CHARS


def test_what_an_earlier_version_made_from_a_text_is_known() -> None:
    for description in ("btw I'm allergic to peanuts", "I'm allergic to peanuts", "I'm allergic"):
        assert is_made_from("btw I'm allergic to peanuts.", description)


WORDS = """
we I the deploy staging server Kim billing invoices pnpm `make all` https://wiki.test/a,b 8080 3.12 10 minutes MB
not never except unless only if when before after in on for and or because so is are has uses, tables; (really) –
nicht außer weil und Rechnung sauf parce factura salvo não без это 请 我们 数据库 テスト は
"""
SENTENCES = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=40).map(" ".join)


@given(SENTENCES)
def test_a_name_is_the_beginning_of_its_sentence_and_hides_no_exception(sentence: str) -> None:
    name = make_name(sentence)
    shown = name.removesuffix("…")
    assert 0 < len(name) <= MAX_NAME_CHARS
    assert shown in sentence
    assert make_name(sentence) == name
    rest = sentence.partition(shown)[2]
    limiting = {word for word, group in common_words(sentence).items() if group == "l"}
    if limiting.intersection(re.findall(r"\w+", rest.lower())):
        assert name.endswith("…")


@given(SENTENCES)
def test_a_file_is_named_by_whole_words_in_their_order_and_ends_with_one_that_tells(sentence: str) -> None:
    name = make_name(sentence)
    slug = file_name("user", name, lambda path: False).removeprefix("user_").removesuffix(".md")
    assert 0 < len(slug) <= MAX_SLUG_CHARS
    groups = common_words(name)
    if slug.count("-") > 1 and not set(slug.split("-")) <= groups.keys():
        assert groups.get(slug.rpartition("-")[2], "w") in "wnlc"
