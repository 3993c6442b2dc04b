"""Names and descriptions made from a text. Both repeat the user's words; neither ever replaces the text itself."""

from __future__ import annotations

import re

MAX_NAME_CHARS = 60
MAX_DESCRIPTION_CHARS = 120

# Full stops that end no sentence: behind one letter ("J. Smith", "i.e.", "z. B."), behind titles (an "MR" is none),
# behind shortened words, and between some words and a number ("No. 5", "Nov. 3"). A group has words of one length.
NO_SENTENCE_END = (
    r"(?<!(?<![\w'’])[^\W\d_i]\.)"
    r"(?<!\b(?-i:[DdMmSs]r|Ms|Hr|Fr|St)\.)(?<!\b(?-i:Dra|[Mm]rs|Sra|Mme)\.)(?<!\b(?-i:[Pp]rof|Srta|Mlle)\.)"
    r"(?<!\b(?:vs|cf|ca|ej|nr)\.)(?<!\b(?:bzw|ggf|vgl|sog|etc|usw|núm)\.)(?<!\baprox\.)(?<!\bapprox\.)"
    r"(?<!\b(?:incl|inkl|excl|exkl|resp|evtl|bzgl|zzgl)\.)(?!(?<=\b(?:no|pp)\.)\s+\d)(?!(?<=\bsept\.)\s+\d)"
    r"(?!(?<=\b(?:art|fig|min|max|vol|abs|kap|tel|ext|jan|feb|mar|mär|apr|jun|jul|aug|sep|oct|okt|nov|dec|dez)\.)\s+\d)"
)
_SENTENCE_END = re.compile(rf"(?<=[^\W\d_][.!?])(?i:{NO_SENTENCE_END})\s+(?![a-z])|(?<=[。！？])|\n+")
_TOPICS = re.compile(
    r"When it is about |Wenn es um .+ geht|Quand il s'agit de |Cuando se trata de |涉及.+时|.+のとき…?$"
)
_LIST_MARK = re.compile(r"(?:[-*•>]|#+|\d{1,2}[.)])\s+")
_REQUEST = re.compile(
    r"""(?ix)\s*
    (?: (?:please|pls|bitte|por\ favor|s['’]il\ (?:te|vous)\ pla[iî]t|per\ favore|пожалуйста|proszę)[\s,]+ )?
    (?P<polite> (?:(?:can|could|would|will)\ you|k[aö]nn(?:te)?st\ du|peux-tu|pourrais-tu|puedes|podrías)
        (?:\ (?:please|pls|bitte|por\ favor))?\s+ )?
    (?: (?:remember|(?:take\ |make\ a\ )?note|keep\ in\ mind|don['’]?t\ forget|do\ not\ forget
        |merke?\ dir|dir\ merken|vergiss\ nicht|beachte
        |souviens-toi|te\ souvenir|retiens|retenir|n['’]oublie\ pas
        |recuerda|recordar|ten\ en\ cuenta|no\ olvides
        |ricorda(?:ti)?|tieni\ a\ mente|lembre-se|lembra-te|onthoud|vergeet\ niet|zapamiętaj|pamiętaj
        |запомни(?:те)?|имей\ в\ виду|تذكّ?ر)
        (?: ,?\s+(?:bitte|please|por\ favor) )?
        (?: ,?\s+(?:d[ei]\ )?(?:that|dass|que|che|dat|że|что|أنّ?)\b(?!\ down\b)\s*[:,]? | ,?\s+qu['’](?=\w)
        | (?:\s+this)?\s*[:,] ) \s*
    | remember\s+(?=(?:i|my|we)\b)
    | (?:请|請)?(?:记住|記住)\s*[:：,，]?\s*
    | 覚えておいて(?:ください)?\s*[:：、]\s*
    | 기억해\s*(?:줘|주세요|둬)?\s*[:：,]\s*
    )(?=\S)"""
)
_QUESTION_TAG = re.compile(
    r"(?i)\s?[,;，–—-]\s*(?:ok|okay|alright|all right|please|will you|would you|could you|can you|ja|gut|verstanden"
    r"|d['’]accord|vale|entendido|好吗|好嗎|可以吗)\s*[?？][?？!.\s]*$"
)
_POLITE_END = re.compile(r"\s*[?？][?？!\s]*$")


def find_requested(text: str) -> tuple[int, int]:
    """Return where that begins and ends which a text asks to remember; all of it if there is no request in front.

    The end is before a question that belongs to the request: "can you remember that … ?", "remember that …, ok?".
    """
    request, end = _REQUEST.match(text), len(text)
    if not request:
        return 0, end
    ending = _POLITE_END if request["polite"] else _QUESTION_TAG
    tag = ending.search(text, max(request.end(), end - 40))
    return request.end(), tag.start() if tag else end


def without_request(text: str) -> str:
    """Return a text without the request to remember at its beginning; everything else stays as it was typed.

    >>> without_request("Please remember that No. 5 is the test account.")
    'No. 5 is the test account.'
    >>> without_request("no emojis in commit messages"), without_request("Remember to call Kim")
    ('no emojis in commit messages', 'Remember to call Kim')
    """
    return text[slice(*find_requested(text))].strip()


def make_name(text: str) -> str:
    """Return the first sentence of a text, cut at a word where it is long.

    >>> make_name("I prefer pnpm."), make_name("- No emojis in commits\\n- No tabs")
    ('I prefer pnpm', 'No emojis in commits')
    """
    return cut_at_word(_first_sentence(text), MAX_NAME_CHARS)


def make_description(text: str) -> str:
    """Return the fact itself as one line: the first sentence, cut at a word where it is long."""
    return cut_at_word(_first_sentence(text), MAX_DESCRIPTION_CHARS)


def is_made_from(body: str, description: str) -> bool:
    """Return True if nobody wrote this description: it repeats the text, or lists topics as earlier versions did.

    >>> is_made_from("I prefer pnpm.", "I prefer pnpm"), is_made_from("I prefer pnpm.", "Package manager")
    (True, False)
    """
    line = " ".join(body.split()).rstrip(" .。")
    return bool(_TOPICS.match(description)) or line.startswith(description.rstrip(" .。…"))


def cut_at_word(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, cut behind a word and marked with an ellipsis where it is longer.

    >>> cut_at_word("one two three", 9), cut_at_word("one two", 9)
    ('one two…', 'one two')
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    if not text[limit - 1].isspace() and " " in head:
        head = head.rpartition(" ")[0]
    return head.rstrip(" ,;:(–—-") + "…"


def _first_sentence(text: str) -> str:
    sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    sentence = " ".join(_LIST_MARK.sub("", sentence, count=1).split())
    return sentence.rstrip(" .。:：") or sentence
