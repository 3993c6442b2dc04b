from __future__ import annotations

import json
import os
import random
import re
import re._parser as parser  # type: ignore[import-not-found]
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.guard.secret_values import is_exact_password, is_password, is_placeholder, is_striking, is_token
from memsheaf.guard.secrets import FORMATS, find_secrets, new_secrets, without_secrets

ROOT = Path(__file__).parent.parent.parent
CASES: list[dict[str, Any]] = [
    case
    for name in ("secrets", "secrets_unseen")
    for case in json.loads((ROOT / f"tests/corpora/{name}.json").read_text(encoding="utf-8"))["cases"]
]
DRAWN = 1000 if os.environ.get("MEMSHEAF_LONG") else 25
FAKE = "FAKEfake" + "0123456789"  # cut, so that nobody's scanner takes our tests for a leak


def text_of(case: dict[str, Any]) -> str:
    return "".join(case["parts"])


def value_of(case: dict[str, Any]) -> str:
    return "".join(case["parts"][place] for place in case["secret"])


FLAGGED = [case for case in CASES if case["expect"] in ("flag", "flag_best_effort")]
BENIGN = [case for case in CASES if case["expect"] == "pass"]


def covers(text: str, value: str) -> bool:
    """Whether one finding spans the whole value."""
    at = text.find(value)
    return any(secret.start <= at and secret.end >= at + len(value) for secret in find_secrets(text))


def test_every_secret_of_the_corpus_is_found_whole_and_nothing_benign_is() -> None:
    missed = [case["id"] for case in CASES if case["expect"] != "pass" and not covers(text_of(case), value_of(case))]

    assert missed == []
    assert [case["id"] for case in BENIGN if find_secrets(text_of(case))] == []


def drawn(pattern: Any, chance: random.Random) -> str:
    """A text that a parsed pattern matches, as short as it may be, with its characters drawn at random."""
    text = ""
    for kind, about in pattern:
        match str(kind):
            case "LITERAL":
                text += chr(about)
            case "NOT_LITERAL":
                text += chance.choice("aB3")
            case "IN":
                text += chance.choice(_characters(about))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, _, (*_, (inside, choices)) = about
                if str(inside) == "IN" and len(about[2]) == 1:
                    text += "".join(chance.choices(_characters(choices), k=least))
                else:
                    text += "".join(drawn(about[2], chance) for _ in range(least))
            case "SUBPATTERN":
                text += drawn(about[-1], chance)
            case "BRANCH":
                text += drawn(chance.choice(about[1]), chance)
    return text


def _characters(choices: Any) -> str:
    if str(choices[0][0]) == "NEGATE":
        return "aB3"
    ranges = [about if str(kind) == "RANGE" else (about, about) for kind, about in choices]
    return "".join(chr(code) for first, last in ranges for code in range(first, last + 1))


def test_no_random_value_of_a_format_is_missed() -> None:
    missed = []
    for known in FORMATS:
        chance, pattern = random.Random(16), parser.parse(known.pattern)
        values = [drawn(pattern, chance).rstrip("\n") for _ in range(DRAWN)]
        shown = without_secrets("".join(f"see {value} there\n" for value in values))
        missed += [(known.kind, value) for value in values if value in shown]

    assert missed == []


def test_a_token_that_is_broken_over_two_lines_is_removed_whole() -> None:
    left = []
    for known in FORMATS:
        if "://" in known.pattern or "PuTTY" in known.kind:
            continue
        value = drawn(parser.parse(known.pattern), random.Random(17)).rstrip("\n")
        place = (len(known.needle) + len(value)) // 2
        first, second = value[:place], value[place:]
        for text in (f"{first}\n{second}", f"> {first}\n> {second}\n> and so on", f"'{first}' +\n '{second}'"):
            left += [text] if second in without_secrets(f"It is {text}\n") else []

    assert left == []


def test_secrets_of_many_kinds_and_languages_are_found() -> None:
    texts = [
        "ghp_" + FAKE * 2,
        "xoxb-123456789012-" + FAKE,
        "sk-ant-api03-" + FAKE * 4,
        "Authorization: Basic " + "Ym9iOmZha2VmYWtlZmFrZTEyMw==",
        "Authorization: token " + FAKE * 2,
        "postgres://app:fAk3Pg-" + "Passw0rd@db.example.com/app",
        '{"db": {"pass": "fAk3' + 'Js0nPw"}}',
        "Server=db;User Id=sa;Pwd=fAk3" + "Sql!;",
        "数据库密码：Fak3" + "Pass2026",
        "パスワードはFak3" + "Pass2026です",
        "비밀번호는 Fak3" + "Pass2026",
        "Das Passwort für den Server lautet Fak3" + "Pass!2026",
        "la contraseña del wifi es Fak3" + "Pass2026",
        "<password>fAk3" + "pass1</password>",
        'setPassword("fAk3' + 'pass1")',
        "| password | fAk3" + "pass1 |",
        "**Password:** `fAk3" + "pass1`",
        "curl -u bob:fAk3" + "pass https://x.example",
        "credentials: admin / Fak3" + "Pass99!",
        "log in with ann / Fak3" + "Pass99x",
        "mysql -u root -pFak3" + "Pass99x shop",
        'ConvertTo-SecureString "Fak3' + 'Pass99x!" -AsPlainText -Force',
        'variable "db_password" {\n  type    = string\n  default = "Fak3' + 'Pass99x"\n}',
        "password=correct-horse-" + "battery-staple",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJmYWtlIn0." + FAKE * 2,
    ]

    assert [text for text in texts if not find_secrets(text)] == []


@each_case(
    "text",
    [
        "gh\u200bp_" + FAKE * 2,
        "ｇｈｐ＿" + FAKE * 2,
        "ghp%5F" + FAKE * 2,
        "ghp&#95;" + FAKE * 2,
        "ghp_FAKEfake0123\n456789" + FAKE,
        "AKIAZFAKE\n  " + "FAKEFAKE234",
        '"ghp_FAKEfake0123" + "456789' + FAKE + '"',
        "contrasen\u0303a: Fak3" + "Pass2026",
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    (secret,) = find_secrets("Mine, ½ of it: " + text)

    assert secret.start >= len("Mine, ½ of it: ")
    assert secret.end == len("Mine, ½ of it: " + text) - text.endswith('"')


def test_what_only_speaks_of_secrets_passes() -> None:
    texts = [
        "password: ${DB_PASSWORD}",
        "api_key = settings.OPENAI_API_KEY",
        "token = get_token2(user)",
        "password: [REDACTED]",
        "ghp_" + "x" * 36,
        "AKIAIOSFODNN7EXAMPLE",
        "sk-your-key-here-please-1234",
        "Authorization: Bearer $TOKEN",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbC123",
        "token is valid until 2026-03-05T10:00:00Z",
        "max_tokens: 4096",
        "class sk-estimator-doc-link-fitted-2",
        "tokenizer: cl100k_base",
        "design token: color-blue-500",
        "password hash: $2b$12$" + FAKE * 3,
        "API key is in 1Password under Prod2024",
        "postgres://postgres:postgres@db:5432/app",
        "redis://localhost:6379/0",
        "secret db-credentials-7f9c8d",
        "password reset ticket: JIRA-12345",
        "JWT_SECRET=$(openssl rand -hex 32)",
        "integrity sha512-" + FAKE * 4 + "==",
        "PUBLIC_KEY=" + FAKE * 2,
        "https://example.com:8443/@scope/pkg",
        "files that begin with -----BEGIN RSA PRIVATE KEY----- are refused",
        "password = index_url_user_password",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "pass `verbosity=0` to it",
    ]

    assert [text for text in texts if find_secrets(text)] == []


@each_case(
    "text",
    [
        "the wifi password at the office is blauwal" + "-77",
        "The password for the admin account is hunter" + "22",
        "Le mot de passe du wifi est soleil" + "42",
        "La contraseña del wifi es girasol" + "99",
        "La senha do wifi é girassol" + "99",
        "Das WLAN-Passwort im Büro lautet blauwal" + "77",
        "Das Passwort für das WLAN ist sonne" + "-2024",
        "Het wachtwoord van de wifi is tulp" + "-4411",
        "The password to staging is now sonne" + "2024",
        "password on the printer: drucker" + "4711",
        "pwd for jenkins is butterfly" + "9",
        'The password for visitors is "sommer-' + '24"',
        "The password of the VPN is Sommer!" + "Sonne",
        "In the office in Berlin the wifi password at reception is blauwal" + "-77",
        "Remember that the password for the safe is 482" + "193",
        "My password is blauwal" + "-77",
        "My PIN is 48" + "21",
        "The PIN for the company card is 48" + "21",
        "Die PIN lautet 48" + "21",
        "The door code is 99" + "21#",
        "The gate code at the office is 99" + "21",
        "the alarm code is 99" + "21",
        "Remember that the PIN is 12" + "34",
        "The wifi code is 8821" + "-BLUE",
        "login for staging: admin / adm1n" + "Pass99",
        "wifi: MyNet / sup3r" + "secret99",
        "the broker wants a login: user giess pw gurke-sieben-" + "regen42",
        "for uploads you need PLAY_UPLOAD=plup_9x7desc" + "antQz81mmR0",
        "the right one is bd_live_R8altos" + "40kkT7xx",
        "wifi: SunnyHouse / key: 9f8e7d" + "6c5b",
    ],
)
def test_a_password_is_found_though_words_say_what_it_is_for(text: str) -> None:
    (secret,) = find_secrets(text)

    assert text[secret.start : secret.end] == re.split('[ "=]+', text.rstrip('"'))[-1]


@each_case(
    "text, secret",
    [
        ("The passphrase is correct horse " + "battery staple", "correct horse battery staple"),
        ("Die Passphrase ist korrekt pferd " + "batterie klammer.", "korrekt pferd batterie klammer"),
        ('passphrase: "Silver Garden ' + 'Lamp Ocean", from Mira', "Silver Garden Lamp Ocean"),
        ("WLAN: HomeNet / Schlüssel: Sunny" + "Days", "SunnyDays"),
        ("wifi: HomeNet\nkey: Sunny" + "Days", "SunnyDays"),
        ("https://hooks.example/services/T000/B000/XXXX" + "key", "XXXXkey"),
        ("https://hooks.example.com/catch/a8f5Kd93" + "jfLs02mXnQ7r/", "a8f5Kd93jfLs02mXnQ7r"),
        ("https://ci.example.com/trigger/door/key/dK3jf8s" + "Lq0Zx7Vb2Nm", "dK3jf8sLq0Zx7Vb2Nm"),
    ],
)
def test_words_and_addresses_that_are_a_secret_are_found(text: str, secret: str) -> None:
    assert [text[found.start : found.end] for found in find_secrets(text)] == [secret]


def test_what_is_said_about_a_password_for_something_passes() -> None:
    texts = [
        "the passphrase is in 1Password",
        "The passphrase is stored inside Bitwarden vault Engineering",
        "The passphrase is four random English words",
        "the password is kept somewhere safe offline",
        "passphrase: ask Mira before Friday noon",
        "wifi: HomeNet / key: see the fridge",
        "https://hooks.example.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "https://git.example.com/acme/webhooks/commit/3f786850e387550fdab836ed7e6dc881de23001b",
        "https://docs.example.com/webhooks/2024-11-15-release-notes",
        "The password policy for the office is strict",
        "The password for staging is in Vault",
        "The password for prod is in vault-2",
        "The password for user42 is on server-2",
        "The token limit is 4096",
        "The PIN pad is on floor 3",
        "The PIN is 4 digits long",
        "The default PIN is 0000, in tests the PIN is 1234",
        "The PIN for Mumbai is 400001",
        "In the demo of March the PIN is 1234, and the PIN is 1234 digits long",
        "The wifi code: esp32-driver, in drivers/net_80211",
        "wifi: ESP32 / ESP8266, 802.11ac / 802.11ax",
        "The login for staging is with SSO/OAuth2, see login for admins: docs/login2.md",
        "The pin for numpy is 2024.1 and the LED pin is 1024",
        "The PIN for the sensor is 3300 ohms away",
        "The error code is 4040 and the postal code is 10115",
        "The door code is on the whiteboard since 2024",
        "The door code was 2000 lines long",
        "The PIN was changed in 2024",
        "passwords are rotated every 90 days",
        "passwords for the cluster are kept on node-3",
        "passwords in the app are PBKDF2-hashed",
        "The password field has 2 columns",
        "the password reset takes 15 minutes",
        "The password for the demo is the same as in ticket-4411",
        "The password for users is 12-characters long",
        "The password for the share was changed on 2026-05-01",
        "The password for the wifi is WPA2-encrypted",
        "The password for the admin account is postgres2024",
        "The password for root is required!",
        "The password for ann is up-to-the-minute",
        "The password service for staging is auth-service-2",
        "The password database on this host is db-eu-14",
        "The ticket about the password for staging is PROJ-123",
        "The password for staging is OPS-4411",
        "The server that holds the password for staging is srv-auth-01",
        "The job rotating the passwords for staging is rotate-2",
        "Der Server mit dem Passwort für Staging ist node-31",
        "The host with the admin password is node-31",
        "We moved the password for staging to step-3",
        "Changing the password for staging is step-31",
        "The password in the fixture is test-user-1",
        "The password for CI is GITHUB_TOKEN_2",
        "Passwords on Windows are NTLMv2-hashed",
        "The password in Postgres is scram-sha-256",
        "The door code: 2000 people know it",
        "The secret for the ingress is tls-secret-2",
        "The wifi key: see vault, and the wlan key is rotated",
        "The user pw reset is at /reset and user bot pass rate 98.2%",
        "IMAGE=node_20_alpine3 and LOG_LEVEL=debug_verbose2 with MODEL=gpt_4o_mini_2024",
        "BRANCH=feature_AddLoginForTeams is merged, the table is called app_live_20261101",
    ]

    assert [text for text in texts if find_secrets(text)] == []


def test_honest_texts_raise_no_alarm() -> None:
    files = [path for path in (ROOT / "benchmarks/data/coding").rglob("*.*") if path.is_file()]
    files += [path for path in (ROOT / "tests/corpora").iterdir() if not path.name.startswith("secrets")]

    assert [path.name for path in files if find_secrets(path.read_text(encoding="utf-8"))] == []


AROUND = [
    "The", "deploy", "runs", "Fridays.", "naïve", "日本語", "x = 3;", "`make`", "42", "(see", "docs)", "\n", "- ",
]  # fmt: skip
WORDS = st.lists(st.sampled_from(AROUND), max_size=12).map(" ".join)


@given(st.sampled_from(FLAGGED), WORDS, WORDS)
def test_a_secret_is_found_among_other_words(case: dict[str, Any], before: str, behind: str) -> None:
    assert covers(f"{before}\n{text_of(case)}\n{behind}", value_of(case))


def test_a_token_over_three_lines_is_no_part_of_the_word_in_the_line_before() -> None:
    case = next(case for case in FLAGGED if case["kind"] == "jwt_over_three_lines")

    assert covers(f"deploy\n{text_of(case)}\n", value_of(case))


@given(st.text(), st.text())
def test_any_text_can_be_searched_and_places_lie_within(text: str, more: str) -> None:
    whole = f"{text} password: {more}"

    assert all(0 <= secret.start < secret.end <= len(whole) for secret in find_secrets(whole))


def test_what_is_shown_in_its_stead_does_not_say_it() -> None:
    for case in FLAGGED:
        text = text_of(case)

        shown = without_secrets(text)

        assert value_of(case) not in shown
        assert "[removed: " in shown
        assert value_of(case) not in repr(find_secrets(text))


def test_only_what_was_not_there_before_counts_as_new() -> None:
    old, new = "ghp_" + FAKE * 2, "glpat-" + FAKE + "ab"

    assert new_secrets(f"moved: {old}", f"was {old}") == []
    assert [secret.kind for secret in new_secrets(f"{old} {new}", old)] == ["a GitLab token"]
    assert [secret.kind for secret in new_secrets(old, "")] == ["a GitHub token"]


def test_a_value_is_judged_by_how_it_looks() -> None:
    assert is_password("fluffy1987")
    assert not is_exact_password("required")
    assert is_token("3f786850e387550fdab8")
    assert not is_token("color-blue-500")
    assert is_striking("Corr3ct-H0rse")
    assert not is_striking("Windows11Pro")
    assert is_placeholder("xxxx-xxxx")
    assert not is_placeholder("tr0ub4dor")


UNITS = [
    "a", "=", "aB3", "/+A9", "password", "password: ", "password a ", "-----BEGIN PRIVATE KEY-----", "eyJ",
    "eyJa.", "://a:", "key=", "ghp_", "%41", "sk-", "&#95;", "a\u200b", "cookie:", "curl -u ", "login a ",
    "bearer ", "AKIA", "seed wallet ", "abc ", "1", "'+'", "a\n", "auth=", "１", "token=", "token a1", "pw ",
    "key_", "secret\\n", "abcdefgh ", "ghp_a\n", "AKIAA\n", "glpat-aaaaaaaaaaaaaaaa\n", "---- BEGIN ",
    "kind: Secret\ndata:\n", "a: b\n  ", "Cookie: a=b; ", "Authorization: ", "WIFI:S:;", "a:1:b:c:", "JBSW ",
    "backup code:\n", "MII", "<D>", "密码", "PIN for a ", "password for a is b1 ", "a with the password ", "(((", '"',
    "https://hooks/a/", "passphrase is abcde ", "wifi: a / key: ",
]  # fmt: skip


def test_a_text_four_times_as_long_takes_about_four_times_as_long() -> None:
    def cost(text: str) -> float:
        begin = time.process_time()
        find_secrets(text)
        return time.process_time() - begin

    slow = []
    for unit in UNITS:
        short, long = (unit * (size // len(unit)) for size in (4_000, 16_000))
        cost(unit * 10)
        if cost(long) >= 10 * cost(short) + 0.02 and min(cost(long), cost(long)) >= 10 * cost(short) + 0.02:
            slow.append(unit)

    assert slow == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("that key in the cassette, AQEyhmfuXNWTK0Qc+iSS1mqFAKE7hXn2Lr9vQd0Zb3Tk= , scrub it", "AQEyhmfu"),
        (
            "creds for a test: AKIAIOSFODNN7FAKEFAK / wJalrFAKEtnFEMI/K7MDENG/bPxFAKEKEY99aQ3z , throw them away",
            "wJalr",
        ),
    ],
)
def test_a_random_word_in_a_line_about_a_key_is_found_though_nobody_says_that_it_is_one(
    text: str, secret: str
) -> None:
    assert secret not in without_secrets(text)


def test_long_words_beside_a_key_that_are_public_are_not() -> None:
    texts = [
        "The cache key of the build is sha256-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6h",
        "The key provider is src/components/Key3Provider/SomeVeryLongComponentName2/index",
        ".token { --secret-gap: 2px; src: url(data:image/png;base64,Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6h); }",
        "mysql -u root -p shop; mysql -uroot -p$DB_PASSWORD shop; mysqldump --port 3306 -p backups",
        'variable "db_password" {\n  default = ""\n}', "log in with ann / your usual password",
        "Integrity of the token package: sha512-Zm9vYmFyQmF6MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3A=",
    ]  # fmt: skip

    assert [text for text in texts if without_secrets(text) != text] == []
