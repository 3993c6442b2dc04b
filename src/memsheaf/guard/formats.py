"""Secrets that are known by their looks: what providers publish of their keys and tokens.

A rule is tried only where its needle stands in the text, so most texts cost a few substring tests.
"""

from __future__ import annotations

import re
from functools import cache

from memsheaf.values import NamedTuple


class Format(NamedTuple):
    """What a kind of secret is called, what stands in every one, and how it looks; group 1 is the secret.

    With `least`, the needle is how it begins, and the pattern one of that many characters that follow.
    """

    kind: str
    needle: str
    pattern: str
    least: int = 0


# Kind, how it begins, what may follow, and how much of that at least. Real ones are often longer than asked for here.
_WORD, _TOKEN, _HEX, _UPPER = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]", "[A-Z0-9]"
_BEGINNINGS = (
    ("an AWS access key", "AKIA", _UPPER, 16), ("an AWS access key", "ASIA", _UPPER, 16),
    ("an AWS access key", "ABSK", "[A-Za-z0-9+/]", 60),
    ("an Alibaba access key", "LTAI", _WORD, 12), ("a Tencent access key", "AKID", _WORD, 28),
    ("a GitHub token", "ghp_", _WORD, 20), ("a GitHub token", "gho_", _WORD, 20),
    ("a GitHub token", "ghu_", _WORD, 20), ("a GitHub token", "ghs_", _WORD, 20),
    ("a GitHub token", "ghr_", _WORD, 20), ("a GitHub token", "github_pat_", "[A-Za-z0-9_]", 22),
    ("a GitLab token", "glpat-", "[A-Za-z0-9_.-]", 16), ("a GitLab token", "gldt-", _TOKEN, 16),
    ("a GitLab token", "glrt-", _TOKEN, 16), ("a GitLab token", "glptt-", _TOKEN, 16),
    ("a GitLab token", "glcbt-", _TOKEN, 16), ("a GitLab token", "glsoat-", _TOKEN, 16),
    ("a GitLab token", "GR1348941", _TOKEN, 16),
    ("a Bitbucket token", "ATBB", _WORD, 24), ("an Atlassian token", "ATATT3", "[A-Za-z0-9_=-]", 40),
    ("an Atlassian token", "ATCTT3", "[A-Za-z0-9_=-]", 40),
    ("a Slack token", "xoxb-", _TOKEN, 12), ("a Slack token", "xoxp-", _TOKEN, 12),
    ("a Slack token", "xoxa-", _TOKEN, 12), ("a Slack token", "xoxr-", _TOKEN, 12),
    ("a Slack token", "xoxs-", _TOKEN, 12), ("a Slack token", "xoxe-", _TOKEN, 12),
    ("a Slack token", "xoxc-", _TOKEN, 12), ("a Slack token", "xoxd-", "[A-Za-z0-9%/+_-]", 12),
    ("a Slack token", "xoxe.xox", "[A-Za-z0-9.-]", 12), ("a Slack token", "xapp-", _TOKEN, 16),
    ("a Stripe key", "sk_live_", _WORD, 10), ("a Stripe key", "sk_test_", _WORD, 10),
    ("a Stripe key", "rk_live_", _WORD, 10), ("a Stripe key", "rk_test_", _WORD, 10),
    ("a webhook's signing secret", "whsec_", "[A-Za-z0-9+/=]", 16),
    ("an Anthropic key", "sk-ant-", _TOKEN, 16), ("an OpenAI key", "sk-proj-", _TOKEN, 20),
    ("an OpenAI key", "sk-svcacct-", _TOKEN, 20), ("an OpenAI key", "sk-admin-", _TOKEN, 20),
    ("an OpenRouter key", "sk-or-v1-", _HEX, 24), ("a LangSmith key", "lsv2_", "[A-Za-z0-9_]", 24),
    ("a Hugging Face token", "hf_", _WORD, 24), ("a Replicate token", "r8_", _WORD, 30),
    ("a Groq key", "gsk_", _WORD, 30), ("an xAI key", "xai-", _WORD, 30), ("a Perplexity key", "pplx-", _WORD, 30),
    ("a Google API key", "AIza", _TOKEN, 30), ("a Google client secret", "GOCSPX-", _TOKEN, 16),
    ("a Google access token", "ya29.", _TOKEN, 20), ("a Google refresh token", "1//0", _TOKEN, 30),
    ("a Firebase key", "AAAAA", "[A-Za-z0-9_-]{2,6}:APA91b[A-Za-z0-9_-]", 60),
    ("an npm token", "npm_", _WORD, 30), ("a PyPI token", "pypi-AgE", _TOKEN, 30),
    ("a RubyGems key", "rubygems_", _HEX, 32), ("a crates.io token", "cio", _WORD, 32),
    ("a NuGet key", "oy2", "[a-z0-9]", 43), ("a Docker token", "dckr_pat_", _TOKEN, 16),
    ("a Docker token", "dckr_oat_", _TOKEN, 16),
    ("a Twilio key", "SK", _HEX, 32), ("a Databricks token", "dapi", _HEX, 32),
    ("a Mailgun key", "key-", _HEX, 32), ("a Brevo key", "xkeysib-", "[a-zA-Z0-9-]", 40),
    ("a Resend key", "re_", "[A-Za-z0-9]{6,12}_[A-Za-z0-9]", 20),
    ("a DigitalOcean token", "dop_v1_", _HEX, 40), ("a DigitalOcean token", "doo_v1_", _HEX, 40),
    ("a DigitalOcean token", "dor_v1_", _HEX, 40), ("a Heroku key", "HRKU-", _TOKEN, 30),
    ("a Fly.io token", "fm2_", "[A-Za-z0-9+/=]", 40), ("a Netlify token", "nfp_", _WORD, 30),
    ("a Vercel token", "vcp_", _WORD, 20), ("a Supabase key", "sbp_", _HEX, 32),
    ("a Supabase key", "sb_secret_", _TOKEN, 16), ("a PlanetScale secret", "pscale_tkn_", _TOKEN, 24),
    ("a PlanetScale secret", "pscale_pw_", _TOKEN, 24), ("a PlanetScale secret", "pscale_oauth_", _TOKEN, 24),
    ("a Vault token", "hvs.", _TOKEN, 20), ("a Vault token", "hvb.", _TOKEN, 20),
    ("a Vault token", "hvr.", _TOKEN, 20),
    ("a Terraform token", ".atlasv1.", _TOKEN, 40), ("a Pulumi token", "pul-", _HEX, 40),
    ("a Doppler token", "dp.pt.", _WORD, 30), ("a Doppler token", "dp.st.", "[A-Za-z0-9._-]", 30),
    ("a Tailscale key", "tskey-", _TOKEN, 16), ("a Buildkite token", "bkua_", _HEX, 40),
    ("a CircleCI token", "CCIPAT_", "[A-Za-z0-9_]", 30), ("a JFrog key", "AKCp", _WORD, 40),
    ("a Sourcegraph token", "sgp_", "[0-9a-f_]", 40), ("a SonarQube token", "squ_", _HEX, 40),
    ("a SonarQube token", "sqp_", _HEX, 40), ("a Grafana token", "glsa_", "[A-Za-z0-9_]", 32),
    ("a Grafana token", "glc_", "[A-Za-z0-9+/=]", 32), ("a New Relic key", "NRAK-", _UPPER, 20),
    ("a Sentry token", "sntrys_", "[A-Za-z0-9_+/=-]", 40), ("a Sentry token", "sntryu_", _HEX, 40),
    ("a Dynatrace token", "dt0c01.", "[A-Z0-9.]", 40), ("a PostHog key", "phx_", _TOKEN, 30),
    ("a Shopify token", "shpat_", _HEX, 32), ("a Shopify token", "shpca_", _HEX, 32),
    ("a Shopify token", "shppa_", _HEX, 32), ("a Shopify token", "shpss_", _HEX, 32),
    ("a Square token", "sq0atp-", _TOKEN, 20), ("a Square token", "sq0csp-", _TOKEN, 30),
    ("a Square token", "EAAA", _TOKEN, 56), ("a Facebook token", "EAAC", _WORD, 60),
    ("a Postman key", "PMAK-", "[0-9a-f-]", 50), ("a Linear key", "lin_api_", _WORD, 30),
    ("a Notion token", "ntn_", _WORD, 40), ("a Notion token", "secret_", _WORD, 40),
    ("a Figma token", "figd_", _TOKEN, 30), ("an Airtable token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]", 60),
    ("an Asana token", "1/", "[0-9]{12,20}(?:/[0-9]{12,20})?:[0-9a-f]", 32),
    ("a Contentful token", "CFPAT-", _TOKEN, 40), ("a ReadMe key", "rdme_", "[a-z0-9]", 60),
    ("a Typeform token", "tfp_", "[A-Za-z0-9_.=-]", 40), ("a Dropbox token", "sl.", _TOKEN, 80),
    ("a Flutterwave key", "FLWSECK", _TOKEN, 12), ("an EasyPost key", "EZAK", _WORD, 40),
    ("an Adafruit key", "aio_", _WORD, 26), ("a Yandex key", "AQVN", _TOKEN, 34),
    ("an age key", "AGE-SECRET-KEY-1", _UPPER, 30), ("a 1Password token", "ops_eyJ", _TOKEN, 60),
    ("an OpenSSH private key", "b3BlbnNzaC1rZXktdjE", "[A-Za-z0-9+/=]", 40),
)  # fmt: skip

_SHAPES = (
    Format("an OpenAI key", "sk-", r"(?<![A-Za-z0-9])(sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,256})"),
    Format("an OpenAI key", "T3BlbkFJ", r"([A-Za-z0-9_-]{8,128}T3BlbkFJ[A-Za-z0-9_-]{8,128})"),
    Format("a SendGrid key", "SG.", r"(?<![A-Za-z0-9])(SG\.[A-Za-z0-9_-]{14,80}\.[A-Za-z0-9_-]{20,90})"),
    Format("a Mailchimp key", "-us", r"(?<![0-9a-f])([0-9a-f]{32}-us[0-9]{1,2})(?![0-9a-z])"),
    Format("a Telegram token", ":AA", r"(?<![0-9])([0-9]{7,11}:AA[A-Za-z0-9_-]{28,60})"),
    Format("a Slack webhook", "hooks.slack.com", r"(https?://hooks\.slack\.com/[a-z]{4,12}/[A-Za-z0-9_/+-]{16,200})"),
    Format(
        "a Discord webhook", "/api/webhooks/",
        r"(https?://[a-z.]{0,20}discord(?:app)?\.com/api/webhooks/[0-9]{5,30}/[A-Za-z0-9_-]{16,200})",
    ),
    Format(
        "a Teams webhook", "webhook.office.com",
        r"(https?://[a-z0-9.-]{0,60}webhook\.office\.com/[^\s\"'<>]{30,400})",
    ),
    Format(
        "a Discord token", ".",
        r"(?<![A-Za-z0-9_.-])([MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,110})",
    ),
    Format("a JSON Web Token", "eyJ", r"(eyJ[A-Za-z0-9_-]{6,4096}\.[A-Za-z0-9_-]{6,8192}\.[A-Za-z0-9_.-]{6,4096})"),
    Format("an Azure key", "ccountKey=", r"ccountKey=([A-Za-z0-9+/]{40,100}={0,2})"),
    Format("an Azure key", "haredAccessKey=", r"haredAccessKey=([A-Za-z0-9+/]{30,100}={0,2})"),
    Format("an Azure signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/_-]{24,200}={0,2})"),
    Format("an Azure client secret", "8Q~", r"([A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{30,40})"),
    Format("an AWS signature", "X-Amz-Signature=", r"X-Amz-Signature=([0-9a-f]{40,128})"),
    Format("a one-time password seed", "otpauth://", r"(otpauth://[^\s\"'<>]{0,200}?secret=[A-Za-z2-7%=]{8,200})"),
    Format("a PuTTY private key", "PuTTY-User-Key-File-", r"(PuTTY-User-Key-File-[0-9]: [^\n]{1,80}\r?\n)"),
    Format("a WireGuard key", "rivateKey", r"rivateKey\"?\s{0,4}[=:]\s{0,4}\"?([A-Za-z0-9+/]{42}[A-Za-z0-9+/=]=)"),
    Format("a .pgpass line", ":5432:", r"(?m)^[A-Za-z0-9.*_-]{1,80}:5432:[^:\s]{1,60}:[^:\s]{1,60}:([^\s:]{4,200})$"),
)  # fmt: skip


def pattern_of(known: Format) -> str:
    """How a format looks, as a regular expression; worked out when it is needed."""
    if not known.least:
        return known.pattern
    start, more, least = known.needle, known.pattern, known.least
    # A short start must stand at the start of a word; what is long enough may be anywhere.
    edge = "(?<![A-Za-z0-9])" if len(start) < 6 else ""
    # An access key has one length, and what is hexadecimal ends where that ends: a longer run is something else.
    most = least if more == _UPPER and least == 16 else 512
    end = f"(?!{_WORD})" if most == least or more == _HEX else ""
    return rf"{edge}({re.escape(start)}{more}{{{least},{most}}}{end})"


class Place(NamedTuple):
    """Where only a secret stands: its kind, a word in lower case that is there, how it looks, and what to ask of it.

    `any` counts but a placeholder; a `token` and what is `striking` must look so; a `pair` is base64 of `name:word`.
    """

    kind: str
    needle: str
    pattern: str
    ask: str


_NAME_AND = r"[ \t]{0,2}[\w.@-]{1,60}[ \t]{0,2}[:/][ \t]{0,2}([^\s\"'`<>,;]{6,200})"
PLACES = (
    Place(
        "a password in an address", "://",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>`]{0,100}:([^\s@/\"'<>`]{1,200})@", "any",
    ),
    Place("a bearer token", "bearer", r"(?i:bearer)[ \t:=]{1,4}[\"']?([A-Za-z0-9._~+/-]{12,4096}={0,2})", "token"),
    Place(
        "basic credentials", "basic",
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t\"']{0,4}(?i:basic)[ \t]{1,4}([A-Za-z0-9+/_-]{6,4096}={0,2})",
        "any",
    ),
    Place(
        "registry credentials", "auth",
        r"(?<![A-Za-z0-9])_?auth[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([A-Za-z0-9+/]{8,4096}={0,2})", "pair",
    ),
    Place(
        "a password", "login",
        r"(?i:\blogin)\s{1,8}\S{1,100}\s{1,8}(?i:password|passwd)\s{1,8}([^\s\"']{4,200})", "any",
    ),
    Place(
        "a password", "curl",
        r"(?i:\bcurl)\b[^\n]{0,200}?[ \t](?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,100}:([^\s\"']{4,200})", "any",
    ),
    Place("a password", "sshpass", r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{4,200})", "any"),
    Place("a password", "cred", rf"(?i:\bcred(?:ential)?s?)[ \t]{{0,2}}(?:[:=]|is|are){_NAME_AND}", "striking"),
    Place("a password", "login", rf"(?i:\blogin)[ \t]{{0,2}}(?:[:=]|is){_NAME_AND}", "striking"),
    Place(
        "a session cookie", "ookie",
        r"(?i:cookie)[\"']?:[^\n]{0,200}?(?:sess|sid|auth|token)[A-Za-z0-9_.-]{0,20}=([A-Za-z0-9%._~+/-]{16,2048})",
        "token",
    ),
    Place(
        "a key in an address", "=",
        r"[?&](?:key|sig|signature|auth|code|pwd|pass|hmac)=([A-Za-z0-9%._~+/-]{16,512})", "token",
    ),
)  # fmt: skip

FORMATS: tuple[Format, ...] = (*(Format(*each) for each in _BEGINNINGS), *_SHAPES)


@cache
def _by_start() -> dict[str, list[int]]:
    """Which formats have a needle that begins with these three characters; those with a shorter one under ""."""
    starts: dict[str, list[int]] = {}
    for number, known in enumerate(FORMATS):
        starts.setdefault(known.needle[:3] if len(known.needle) > 2 else "", []).append(number)
    return starts


def begun(text: str) -> list[Format]:
    """The formats whose needle is in a text."""
    starts = _by_start()
    here = starts.keys() & {text[at : at + 3] for at in range(len(text) - 2)}
    numbers = sorted([number for start in (*here, "") for number in starts[start]])
    return [FORMATS[number] for number in numbers if FORMATS[number].needle in text]
