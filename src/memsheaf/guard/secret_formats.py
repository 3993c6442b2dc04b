"""Formats of keys and tokens as providers publish them, and places where only a secret stands.

Sources are the providers' own pages, the list that GitHub's secret scanning documents, and the public rules of
gitleaks, trufflehog and detect-secrets. A new beginning is one line, or one word in a line, of `_BEGINNINGS`. A rule
is tried only where its needle stands in the text, so most texts cost a few substring tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from operator import add
from typing import NamedTuple


class Format(NamedTuple):
    """What a kind of secret is called, what stands in every one, and how it looks; group 1 is the secret.

    `back` says how far before the needle a match begins, -1 where that differs.
    """

    kind: str
    needle: str
    pattern: str
    back: int = -1


# Kind, how it begins, what may follow, and how much of that at least. Real ones are often longer than asked for here.
_WORD, _TOKEN, _HEX, _UPPER, _LOWER = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]", "[A-Z0-9]", "[a-z0-9]"
_SNAKE, _BASE64, _UUID = "[A-Za-z0-9_]", "[A-Za-z0-9+/=]", "[0-9a-f-]"
_BEGINNINGS = (
    # clouds and hosting
    ("an AWS access key", "AKIA ASIA", _UPPER, 16), ("an AWS access key", "ABSK", "[A-Za-z0-9+/]", 60),
    ("an Alibaba access key", "LTAI", _WORD, 12), ("a Tencent access key", "AKID", _WORD, 28),
    ("a Google API key", "AIza", _TOKEN, 30), ("a Google client secret", "GOCSPX-", _TOKEN, 16),
    ("a Google access token", "ya29.", _TOKEN, 20), ("a Google refresh token", "1//0", _TOKEN, 30),
    ("a Firebase key", "AAAAA", "[A-Za-z0-9_-]{2,6}:APA91b[A-Za-z0-9_-]", 60), ("a Yandex key", "AQVN", _TOKEN, 34),
    ("a DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 40), ("a Heroku key", "HRKU-", _TOKEN, 30),
    ("a Fly.io token", "fm1_ fm2_ fo1_", "[A-Za-z0-9+/=_-]", 40), ("a Netlify token", "nfp_", _WORD, 30),
    ("a Vercel token", "vcp_ vca_ vci_ vcr_ vck_", _WORD, 20), ("a Vercel token", "vercel_blob_rw_", _SNAKE, 24),
    ("a Render key", "rnd_", _WORD, 24), ("a Cloudflare key", "v1.0-", "[0-9a-f]{24}-[0-9a-f]", 100),
    ("an OpenShift token", "sha256~", _TOKEN, 40), ("a Scalingo token", "tk-us-", _TOKEN, 40),
    ("a Supabase key", "sbp_", _HEX, 32), ("a Supabase key", "sb_secret_", _TOKEN, 16),
    ("a PlanetScale secret", "pscale_tkn_ pscale_pw_ pscale_oauth_", _TOKEN, 24), ("a Neon key", "napi_", _LOWER, 40),
    ("a Databricks token", "dapi", _HEX, 32), ("a Prefect key", "pnu_ pnb_", _WORD, 30),
    # models, agents and their tools
    ("an Anthropic key", "sk-ant-", _TOKEN, 16), ("an OpenAI key", "sk-proj- sk-svcacct- sk-admin-", _TOKEN, 20),
    ("an OpenRouter key", "sk-or-v1-", _HEX, 24), ("a LangSmith key", "lsv2_", _SNAKE, 24),
    ("a Langfuse key", "sk-lf-", _UUID, 32), ("a Hugging Face token", "hf_ api_org_", _WORD, 24),
    ("a Replicate token", "r8_", _WORD, 30), ("a Groq key", "gsk_", _WORD, 30), ("an xAI key", "xai-", _WORD, 30),
    ("a Perplexity key", "pplx-", _WORD, 30), ("a Fireworks key", "fw_", _WORD, 20),
    ("an NVIDIA key", "nvapi-", _TOKEN, 40), ("a Cerebras key", "csk-", _LOWER, 32),
    ("a Together key", "tgp_v1_", _TOKEN, 30), ("a Tavily key", "tvly-", "[A-Za-z0-9-]", 24),
    ("a Firecrawl key", "fc-", _HEX, 32), ("an E2B key", "e2b_", _HEX, 32), ("a Pinecone key", "pcsk_", _SNAKE, 40),
    ("a Jina key", "jina_", _TOKEN, 40), ("a Voyage key", "pa-", _TOKEN, 40), ("a Mem0 key", "m0-", _WORD, 30),
    ("a Browserbase key", "bb_live_ bb_test_", _TOKEN, 20), ("a RunPod key", "rpa_", _WORD, 36),
    ("a Weights & Biases key", "wandb_v1_", _SNAKE, 40), ("a Cursor key", "crsr_", _HEX, 40),
    ("a Modal token", "as-", _WORD, 22), ("an Anyscale key", "esecret_", _WORD, 20),
    # code, packages and delivery
    ("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD, 20), ("a GitHub token", "github_pat_", _SNAKE, 22),
    (
        "a GitLab token", "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glimt- glagent- gloas- glffct- GR1348941",
        "[A-Za-z0-9_.-]", 16,
    ),
    ("a Bitbucket token", "ATBB", _WORD, 24), ("an Atlassian token", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]", 40),
    ("an npm token", "npm_", _WORD, 30), ("a PyPI token", "pypi-AgE", _TOKEN, 30), ("a NuGet key", "oy2", _LOWER, 43),
    ("a RubyGems key", "rubygems_", _HEX, 32), ("a crates.io token", "cio", _WORD, 32),
    ("a Clojars token", "CLOJARS_", _LOWER, 40), ("a Docker token", "dckr_pat_ dckr_oat_", _TOKEN, 16),
    ("a Pulumi token", "pul-", _HEX, 40), ("a Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", "[A-Za-z0-9._-]", 30),
    ("a Vault token", "hvs. hvb. hvr.", _TOKEN, 20), ("a Tailscale key", "tskey-", _TOKEN, 16),
    ("a Buildkite token", "bkua_", _HEX, 40), ("a CircleCI token", "CCIPAT_", _SNAKE, 30),
    ("a JFrog key", "AKCp", _WORD, 40), ("a Sourcegraph token", "sgp_ slk_", "[0-9a-f_]", 40),
    ("a SonarQube token", "squ_ sqp_ sqa_", _HEX, 40), ("a Postman key", "PMAK-", _UUID, 50),
    ("a LaunchDarkly key", "sdk- api-", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]", 12),
    ("an Infracost key", "ico-", _WORD, 32), ("a Trigger.dev key", "tr_dev_ tr_prod_", _WORD, 20),
    ("an Inngest key", "signkey-prod- signkey-test-", _HEX, 32), ("a ReadMe key", "rdme_", _LOWER, 60),
    # what watches
    ("a Grafana token", "glsa_", _SNAKE, 32), ("a Grafana token", "glc_", _BASE64, 32),
    ("a New Relic key", "NRAK- NRII- NRRA-", "[A-Za-z0-9_-]", 20), ("a Dynatrace token", "dt0c01.", "[A-Z0-9.]", 40),
    ("a Sentry token", "sntrys_", "[A-Za-z0-9_+/=-]", 40), ("a Sentry token", "sntryu_", _HEX, 40),
    ("an Axiom token", "xaat- xapt- xait-", _UUID, 36), ("a PostHog key", "phx_", _TOKEN, 30),
    ("a Honeycomb key", "hcaik_ hcaic_ hcamk_ hcalk_", _LOWER, 30),
    # messages, money, office
    ("a Slack token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxc-", _TOKEN, 12),
    ("a Slack token", "xapp-", _TOKEN, 16),
    ("a Slack token", "xoxd-", "[A-Za-z0-9%/+_-]", 12), ("a Slack token", "xoxe.xox", "[A-Za-z0-9.-]", 12),
    ("a Twilio key", "SK", _HEX, 32), ("a Mailgun key", "key-", _HEX, 32),
    ("a Brevo key", "xkeysib-", "[a-zA-Z0-9-]", 40),
    ("a Resend key", "re_", "[A-Za-z0-9]{6,12}_[A-Za-z0-9]", 20),
    ("a webhook's signing secret", "whsec_", "[A-Za-z0-9+/=_-]", 16),
    ("a Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", _WORD, 10), ("an ElevenLabs key", "sk_", _HEX, 40),
    ("a Plaid token", "access-production- access-sandbox- access-development-", _UUID, 36),
    ("a Shopify token", "shpat_ shpca_ shppa_ shpss_", _HEX, 32), ("a Square token", "EAAA", _TOKEN, 56),
    ("a Square token", "sq0atp- sq0csp-", _TOKEN, 20), ("a Facebook token", "EAAC", _WORD, 60),
    ("a Flutterwave key", "FLWSECK", _TOKEN, 12), ("an EasyPost key", "EZAK EZTK", _WORD, 40),
    ("a Shippo token", "shippo_live_ shippo_test_", _HEX, 32),
    ("a Duffel token", "duffel_live_ duffel_test_", _TOKEN, 40),
    ("a HubSpot token", "pat-na1- pat-na2- pat-eu1-", _UUID, 36), ("a Cal.com key", "cal_live_", _HEX, 28),
    ("a Linear key", "lin_api_ lin_oauth_", _WORD, 30), ("a Notion token", "ntn_ secret_", _WORD, 40),
    ("a Stytch secret", "secret-live- secret-test-", "[A-Za-z0-9_=-]", 30),
    ("an Ory token", "ory_pat_ ory_at_", _TOKEN, 30),
    ("a Figma token", "figd_", _TOKEN, 30), ("an Airtable token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]", 60),
    ("an Asana token", "1/", "[0-9]{12,20}(?:/[0-9]{12,20})?:[0-9a-f]", 32),
    ("a Contentful token", "CFPAT-", _TOKEN, 40), ("a Typeform token", "tfp_", "[A-Za-z0-9_.=-]", 40),
    ("a Dropbox token", "sl.", _TOKEN, 80), ("an Adafruit key", "aio_", _WORD, 26),
    # keys of persons
    ("an age key", "AGE-SECRET-KEY-1", _UPPER, 30), ("a 1Password token", "ops_eyJ", _TOKEN, 60),
    ("a 1Password key", "A3-", "[A-Z0-9]{6}-[A-Z0-9]{6}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]", 5),
    ("a Nostr key", "nsec1", _LOWER, 50), ("an OpenSSH private key", "b3BlbnNzaC1rZXktdjE", _BASE64, 40),
    ("a wallet's extended key", "xprv yprv zprv tprv", _WORD, 100),
)  # fmt: skip

_SHAPES = (
    Format("an OpenAI key", "sk-", r"(?<![A-Za-z0-9])(sk-[A-Za-z0-9_-]{20,}+)", 0),
    Format("an OpenAI key", "T3BlbkFJ", r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{8,}?T3BlbkFJ[A-Za-z0-9_-]{8,}+)"),
    Format("a SendGrid key", "SG.", r"(?<![A-Za-z0-9])(SG\.[A-Za-z0-9_-]{14,80}\.[A-Za-z0-9_-]{20,90})", 0),
    Format("a Mailchimp key", "-us", r"(?<![0-9a-f])([0-9a-f]{32}-us[0-9]{1,2})(?![0-9a-z])", 32),
    Format("a Telegram token", ":AA", r"(?<![0-9])([0-9]{7,11}:AA[A-Za-z0-9_-]{28,60})"),
    Format("a Terraform token", ".atlasv1.", r"([A-Za-z0-9]{0,14}\.atlasv1\.[A-Za-z0-9_-]{40,}+)"),
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
    Format(
        "a JSON Web Token", "eyJ",
        r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(eyJ[A-Za-z0-9_-]{6,}+\."
        r"(?:[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{6,}+(?:\.[A-Za-z0-9_-]++)*+|eyJ[A-Za-z0-9_-]{6,}+))",
    ),
    Format("an Azure key", "ccountKey=", r"ccountKey=([A-Za-z0-9+/]{40,100}={0,2})", 0),
    Format("an Azure key", "haredAccessKey=", r"haredAccessKey=([A-Za-z0-9+/]{30,100}={0,2})", 0),
    Format("an Azure signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/_-]{24,200}={0,2})"),
    Format("an Azure client secret", "8Q~", r"([A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{30,40})", 3),
    Format("an AWS signature", "X-Amz-Signature=", r"X-Amz-Signature=([0-9a-f]{40,128})", 0),
    Format(
        "a one-time password seed", "otpauth://",
        r"(otpauth://(?:[^\s\"'<>o]|o(?!tpauth:)){0,200}?secret=[A-Za-z2-7%=]{8,200})", 0,
    ),
    Format("a PuTTY private key", "PuTTY-User-Key-File-", r"(PuTTY-User-Key-File-[0-9]: [^\n]{1,80}\r?\n)", 0),
    Format("a WireGuard key", "rivateKey", r"rivateKey\"?\s{0,4}[=:]\s{0,4}\"?([A-Za-z0-9+/]{42}[A-Za-z0-9+/=]=)", 0),
    Format(
        "a WireGuard key", "resharedKey",
        r"resharedKey\"?\s{0,4}[=:]\s{0,4}\"?([A-Za-z0-9+/]{42}[A-Za-z0-9+/=]=)",
    ),
    Format("a BitLocker key", "-", r"(?<![0-9-])([0-9]{6}(?:-[0-9]{6}){7})(?![0-9-])", 6),
)  # fmt: skip


def _beginning(kind: str, start: str, more: str, least: int) -> Format:
    # A short start must stand at the start of a word; what is long enough may be anywhere.
    edge = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))" if len(start) < 6 else ""
    # An access key has one length, and what is hexadecimal ends where that ends: a longer run is something else.
    end = f"(?!{_WORD})" if more in (_HEX, _UPPER) else ""
    count = f"{{{least}}}" if more == _UPPER and least == 16 else f"{{{least},}}+"
    return Format(kind, start, rf"{edge}({re.escape(start)}{more}{count}{end})", 0)


FORMATS: tuple[Format, ...] = (
    *(_beginning(kind, start, more, least) for kind, starts, more, least in _BEGINNINGS for start in starts.split()),
    *_SHAPES,
)


class Spot(NamedTuple):
    """Where only a secret stands: its kind, a word in lower case that is there, how it looks, and what to ask of it.

    Group 1 is a secret if it `fits` what is asked. `back` is as for a format.
    """

    kind: str
    needle: str
    pattern: str
    ask: str
    back: int = -1
    probe: str = ""  # what else must be found in the text in lower case, where the needle is in every text


_NAME_AND = r"[ \t]{0,2}[\w.@-]{1,60}[ \t]{0,2}[:/][ \t]{0,2}([^\s\"'`<>,;]{6,200})"
_IN_BASE64 = r"[A-Za-z0-9+/=]"
# What stands between the lines of a key: line breaks, written out or not, and what quotes or indents the next line.
_BETWEEN = r"(?:\s|\\[nr]|[\"'+,>|#*\\])"
_BODY = rf"(?:{_BETWEEN}*+{_IN_BASE64}{{16,}}+)+(?:{_BETWEEN}++{_IN_BASE64}{{1,15}}(?=\s|\\[nr]|[\"',\\-]|$))?"
_ITEM = r"(?=[a-z-]*[0-9])[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,4}|(?=[a-z]*[0-9])[a-z0-9]{8,12}|[0-9]{4} [0-9]{4}"
_LISTED = r"(?:\s|[,;|•*>]|-(?=\s)|[0-9]{1,2}[.)](?=\s))"
PLACES = (
    Spot(
        "a private key", "private key",
        r"(?i)((?<![A-Za-z0-9])BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?[ \t]?-*"
        rf"(?:{_BETWEEN}*+[A-Za-z-]{{3,20}}: [^\n]{{0,200}}+(?=\n|\\n))*+{_BODY}"
        rf"(?:{_BETWEEN}*+-*[ \t]?END [A-Z0-9 ]{{0,60}}-*)?)",
        "",
    ),
    Spot("a private key", "private-lines", rf"(?i)Private-Lines: [0-9]{{1,4}}({_BODY})", "", 0),
    Spot(
        "a private key", "kty",
        r"(?<![\w-])[\"']?(?:d|k|p|q|dp|dq|qi)[\"']?\s{0,4}[:=]\s{0,4}[\"']?([\w-]{20,}+)", "any",
    ),
    Spot(
        "a private key", "</",
        r"(?i)<(?:\w{1,20}:)?(?:D|P|Q|DP|DQ|InverseQ|X|PrivateKey|RSAPrivateKey)>\s{0,80}([A-Za-z0-9+/=][A-Za-z0-9+/=\s]{15,}+)</",
        "any",
    ),
    Spot(
        "a password in an address", "://",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>`]{0,100}:([^\s@/\"'<>`]{1,200})@", "any",
    ),
    Spot(
        "a bearer token", "bearer", r"(?i:bearer)[ \t:=]{1,4}[\"']?([A-Za-z0-9._~+/-]{12,}+={0,2})", "credential", 0,
    ),
    Spot(
        "basic credentials", "authorization",
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t\"']{0,4}(?i:basic)[ \t]{1,4}([A-Za-z0-9+/_-]{6,}+={0,2})",
        "any", 0,
    ),
    Spot(
        "a token in a header", "authorization",
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t\"']{0,4}(?:[A-Za-z][\w-]{1,20}[ \t]{1,4})?(?:(?i:token)=)?[\"']?"
        r"([A-Za-z0-9._~+/:-]{12,}+={0,2})",
        "credential", 0),
    Spot(
        "registry credentials", "auth",
        r"(?<![A-Za-z0-9])auth[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([A-Za-z0-9+/]{8,}+={0,2})", "pair", 0),
    Spot(
        "a password", "login",
        r"(?i:\blogin)\s{1,8}\S{1,100}\s{1,8}(?i:password|passwd)\s{1,8}([^\s\"']{4,200})", "any", 0),
    Spot(
        "a password", "curl",
        r"(?i:\bcurl)\b(?:[^\ncC]|[cC](?!(?i:url))){0,120}?[ \t](?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,100}:"
        r"([^\s\"']{4,200})",
        "any", 0),
    Spot("a password", "sshpass", r"sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{4,200})", "any", 0),
    Spot("a password", " -p", r"\b(?:mysql|maria)\w{0,10}\b[^\n|;]{0,120}?[ \t]-p[\"']?([^\s\"'$]{6,200})", "exact"),
    Spot("a password", "securestring", r"(?i)SecureString[ \t]{1,4}[\"']([^\"'\n]{4,200})", "exact", 0),
    Spot(
        "a password", "default",
        r"(?i)(?:password|secret|token|api_?key)\"[ \t]{0,4}\{[^{}]{0,200}?\bdefault\s{0,20}="
        r"[ \t]{0,4}\"([^\"\n]{4,200})",
        "exact",
    ),
    Spot(
        "a PIN", " ",  # of four or five figures: a postal PIN has six
        r"[PDdGgLl](?:(?<=\bP)IN|(?:oor|ate|arage|ockbox)[ -]?code)"  # begins with a set of letters: that is fast
        r"(?: (?:for|of|to|at|für|vom|de|du|del)(?: [\w'-]{1,40}){1,4}?)?"
        r"(?: (?:is|was|ist|lautet|est|es|é)(?: now)?|:)"
        r" [\"'`]?((?!1234(?!\d)|(?:19|20)\d\d [a-z])([0-9])(?!\2{3})[0-9]{3,4}[#*]?)"
        r"(?![\w%-]|[.,:][0-9]| [a-z]+s\b)",
        "",
    ),
    Spot("a secret", "--from-literal", r"--from-literal[= ][\"']?[\w.-]{1,80}=[\"']?([^\s\"']{6,200})", "held", 0),
    Spot("a password", "cred", rf"(?i:\bcred(?:ential)?s?)[ \t]{{0,2}}(?:[:=]|is|are){_NAME_AND}", "striking", 0),
    Spot("a password", "log", rf"(?i:\blog[ -]?in)[ \t]{{0,2}}(?:[:=]|is|with|as){_NAME_AND}", "striking", 0),
    Spot("a password", ";p:", r"(?i);P:((?:\\.|[^;\\\n]){4,63}+)", "any", 0),  # of WIFI:T:WPA;S:name;P:…;
    Spot(
        "a .pgpass line", ":",
        r"(?m)(?<![^\s`\"'>])[A-Za-z0-9.*_-]{1,80}:(?:[0-9]{1,5}|\*):(?:\*|[A-Za-z_][^:\s]{0,60}):(?![0-9]+:)[^:\s]{1,60}:"
        r"([^\s:`\"']{5,200})(?=[`\"'\s]|$)",
        "any", probe=r":(?:[0-9]{1,5}|\*):",
    ),
    Spot(
        "recovery codes", "code",
        r"(?i)\b(?:recovery|backup|scratch|emergency|2fa|mfa)[ -]?codes?\b[^\n:]{0,60}[:\n]"
        rf"({_LISTED}*+(?:{_ITEM})(?![a-z0-9])(?:{_LISTED}++(?:{_ITEM})(?![a-z0-9]))*+)",
        "any",
    ),
    Spot(
        "a key in an address", "=",
        r"[?&](?:key|sig|signature|auth|code|pwd|pass|hmac)=([A-Za-z0-9%._~+/-]{16,512})", "token",
    ),
    Spot(
        "an AWS secret key", "aws",
        r"(?i)aws[_-]?secret(?:[_-]?access)?[_-]?key[\"']?\s{0,4}[:=]>?\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        "example", 0),
)  # fmt: skip

COOKIE = r"(?i:cookie)[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?((?:[\w.!$%-]{1,80}=[^\s;\"',…]{0,4096}+;?[ \t]{0,4})++)"
PAIR = r"(?i)([\w.!$%-]*(?:sess|sid|auth|tok|csrf|jwt)[\w.!$%-]*|)(?:(?<=[;\s:\"'])[\w.!$%-]+)?=([^\s;\"',…]{8,})"
GROUPED = (
    r"(?<![A-Za-z0-9])(?:[A-Z2-7]{4}(?:[ -][A-Z2-7]{4}){2,15}+(?:[ -][A-Z2-7]{2,4})?+"
    r"|[a-z2-7]{4}(?: [a-z2-7]{4}){2,15}+(?: [a-z2-7]{2,4})?+)(?![A-Za-z0-9])"
)
TWO_GROUPS, FIVE_GROUPS = (
    rf"[ -][A-Za-z2-7]{{4}}(?:[ -][A-Za-z2-7]{{4}}){{{more}}}(?![A-Za-z0-9])" for more in ("1", "4,")
)
"""Parts of what is `GROUPED`, quicker to look for: of any, and of so long a one that figures alone tell it."""
PREFIXED = (
    r"(?!(?:pk|pub|sha|md5|commit|msg|req|cs|phc|css|sc|chunk|file|img)[0-9]{0,3}[_-])"
    r"[A-Za-z][A-Za-z0-9]{0,11}(?:[_-][A-Za-z0-9]{1,10}){0,3}[_-]([A-Za-z0-9]{30,200}+)"
)
"""A word, a separator and a long run: how most providers make their keys, those of tomorrow, too."""


def begun(words: list[str]) -> list[Format]:
    """The formats whose needle is in one of these words."""
    text = " ".join(words)
    letters = set(text)
    pairs = set(
        map(add, text, text[1:]) if len(text) < len(letters) ** 2 else map("".join, product(letters, repeat=2))
    )
    pairs.update(_SINGLE if max(map(len, words), default=0) >= 55 else ())
    near = sorted(number for pair in pairs & _BY_PAIR.keys() for number in _BY_PAIR[pair])
    return [FORMATS[number] for number in near if FORMATS[number].needle in text]


def _by_pair() -> dict[str, list[int]]:
    """The formats by the first two characters of their needles: most texts have few of these pairs."""
    found: dict[str, list[int]] = {}
    for number, known in enumerate(FORMATS):
        found.setdefault(known.needle[:2], []).append(number)
    return found


_BY_PAIR = _by_pair()
_SINGLE = [pair for pair in _BY_PAIR if len(pair) == 1]  # needles of formats of 55 characters or more


def found(pattern: re.Pattern[str], text: str, needle: str, back: int, lowered: str = "") -> Iterator[re.Match[str]]:
    """The matches of a pattern; where each begins so far before a rare needle, that is searched for."""
    searched, done = lowered or text, 0
    if back < 0 or searched.count(needle) * 64 > len(text):
        yield from pattern.finditer(text)
        return
    at = searched.find(needle)
    while at >= 0:
        match = pattern.match(text, at - back) if at - back >= done else None
        if match:
            done = match.end()
            yield match
        at = searched.find(needle, max(at + 1, done))
