"""Sentences: where a text is split, which sentence leans on the one before it, and names made from the first.

Names and descriptions repeat the user's words; neither ever replaces the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsheaf.memory import Memory
from memsheaf.text.common_words import common_words

# Full stops that end no sentence: behind one letter ("J. Smith", "i.e.", "z. B."), behind titles (an "MR" is none),
# behind shortened words, and between some words and a number ("No. 5", "Nov. 3"). A group has words of one length.
_NO_SENTENCE_END = (
    r"(?<!(?<![\w'’])[^\W\d_i]\.)"
    r"(?<!\b(?-i:[DdMmSs]r|Ms|Hr|Fr|St)\.)(?<!\b(?-i:Dra|[Mm]rs|Sra|Mme)\.)(?<!\b(?-i:[Pp]rof|Srta|Mlle)\.)"
    r"(?<!\b(?:vs|cf|ca|ej|ex|nr)\.)(?<!\b(?:bzw|ggf|vgl|sog|etc|usw|núm|sig)\.)(?<!\baprox\.)(?<!\bapprox\.)"
    r"(?<!\b(?:incl|inkl|excl|exkl|resp|evtl|bzgl|zzgl)\.)(?!(?<=\b(?:no|pp)\.)\s+\d)(?!(?<=\bsept\.)\s+\d)"
    r"(?!(?<=\b(?:art|fig|min|max|vol|abs|kap|tel|ext|jan|feb|mar|mär|apr|jun|jul|aug|sep|oct|okt|nov|dec|dez)\.)\s+\d)"
)
# A number with a full stop ends a sentence, unless it begins an item of a list or is a German ordinal.
_NO_ORDINAL = (
    r"(?<!(?m:^)\d\.)(?<!(?m:^)\s\d\.)(?<!\s\s\d\.)(?<![:;.!?]\s\d\.)(?<!\b[ai]m\s\d\.)"
    r"(?<!(?m:^)\d\d\.)(?<!(?m:^)\s\d\d\.)(?<!\s\s\d\d\.)(?<![:;.!?]\s\d\d\.)(?<!\b[ai]m\s\d\d\.)"
    r"(?<!\b(?:de[rnms]|die|das|zum|vom)\s\d\.)(?<!\b(?:de[rnms]|die|das|zum|vom)\s\d\d\.)"
)
_SENTENCE_BORDER = (  # what has no word, such as an emoji at the end of a line, belongs to the sentence before it
    rf"(?is)(?![^\w\n]{{1,20}}(?:\n|\Z))(?:\n|(?<=[。！？])|(?<=[^\W\d][.!?]){_NO_SENTENCE_END}\s+|(?<=\d[!?])\s+|(?<=[)\]…\ufffc][.!?])\s+"
    r"|(?<=\b(?:etc|usw|[ap]\.m)\.)\s+(?=(?-i:[A-ZÄÖÜÉ]))"
    rf"|(?<=\d\.){_NO_ORDINAL}\s+(?!jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez))"
)
_BULLET_MARK = r"\s*(?:[-*•–]|\d{1,2}[.)])\s+"
# Items of one or two words ("- build"), which say nothing one by one. Scripts without spaces are left out.
LIST_OF_WORDS = r"(?:\s*[-*•–][ \t]+[!-\u2e7f]+(?:[ \t]+[!-\u2e7f]+)?[ \t]*(?:\n|\Z)){2,}"
_NEXT_NUMBER = r"(?<!\S)\d{1,2}(?=\.$)"
_QUESTION_END = (  # with its mark, or in words that begin nothing else: "what editor do I use", "wo wohne ich"
    r"[?？]\W*$|(?:[吗呢]|ですか|ますか|でしょうか|かな|っけ)\W*$|(?i:(?:\A|[.!\n])\W*(?:"
    r"(?:what|which|whose|where|when|who|why|how)"
    r"(?: (?!(?:i|you|we|they|he|she|it|the|an?|this|my|our|to)\b)[\w-]+){0,2}"
    r" (?:do|does|did) (?:i|you|we|they|he|she|it|my|our|the|this|that)"
    r"|(?:what|where|when|who|how)(?:['’]s| is| are| was| were) (?:my|our|your)"
    r"|(?:was|wo|wann|wer|wie|warum|wohin) (?!gesagt|immer|auch|wir\b|ich\b)\w+ (?:ich|wir|du|meine?|unsere?)"
    r"|welche[nrsm]? \w+ \w+ (?:ich|wir|du|meine?|unsere?)"
    r"|(?:où |quand |comment |pourquoi |que |qu['’]|quel(?:le)?s? \w+ )?est-ce qu(?:e|['’])"
    r"|quel(?:le)?s? (?:est|sont)"
    r"|(?:qué|cuál(?:es)?|dónde|cuándo|quién(?:es)?|por qué))\b[^.,;:!\n]*\Z)"
)

# A sentence that begins with one of these words leans on the one before it, unless it orders something.
_LEANING_WORDS = (
    r"(?!this (?:project|repo(?:sitory)?|codebase|app|team|company|package|library|machine|laptop|week|month|year)\b)"
    r"(?:it|its|that|this|these|those|he|she|they|his|her|their)\b(?!['’]s (?:all|it)\b)"
    r"|(?:except|unless|otherwise|not|nor)\b"
    r"|(?:er|sie|dies|außer|sonst|ansonsten|nicht|deshalb)\b|es\b(?! gibt)"
    r"|das (?:ist|sind|war|gilt|heißt|wird|hat|kann|soll|darf|muss|geht|liegt|bleibt)\b"
    r"|(?:elles?|ils|ça|cela|ceci|c['’]est|sauf|sinon|pas|donc)\b|il\b(?! (?:y a|faut))"
    r"|(?:eso|esto|él|ellas?|ellos|excepto|salvo|a menos que|si no|por eso)\b"
    r"|[它他她]|[这這那](?:是|样|樣|会|會)|但|不过|不過|除非|除了|否则|否則|而且|并且|所以"
    r"|それ|これ|そこ|その|彼|ただし|でも|しかし|そして|だから|なので"
)
WAS_RIGHT = (
    r"(?i: (?:was|war|était|era)(?: (?:doch|bien))? (?:right|correct|richtig|juste|correcto)(?: after all)?[.!]?)"
)
_BARE_VALUE = (  # "sorry, 3001"; "3001 was right"
    r"(?i)(?:no|sorry|actually|correction|nein|non|não|нет)\s*[,.:!–—-]\s*\S+(?:\s+\S+)?"
    rf"|(?:(?:no|sorry|oh|ah|actually|nein|non|perdón)\s*[,.:!–—-]\s*)?\S*\d\S*{WAS_RIGHT}"
)
_AND_OR = r"(?:and|but|or|so|und|aber|oder|et|mais|ou|y|pero|o)\b"
_ORDER_WORDS = (
    r"(?:now|first|then|next|please|sure|yet|working|can|could|would you|will you|let['’]?s|go|run|fix|add"
    r"|write|make|create|update|check|show|help|look|explain|refactor|rename|delete|remove|open|tell|give|try|what|how"
    r"|why|where|who|jetzt|bitte|dann|maintenant|ahora)\b"
)
_BACK_AT_END = r"(?is).*\b(?:that|this) way\b|.*\s(?:it|them|those|that one)[.!]?\W*$"
_LEANING_START = rf"(?is)\W*(?:{_AND_OR}\s)?(?:{_LEANING_WORDS})(?!\W*{_ORDER_WORDS})"
# a longer sentence that begins with a conjunction says something of its own
_LEANING_OTHERWISE = rf"{_BACK_AT_END}|\W*(?:{_AND_OR})(?!\W*{_ORDER_WORDS})\s*(?:\S+\s*){{0,4}}$"


def _may_have_borders(text: str) -> bool:
    """Return False if a text is surely one sentence: a quick check, for `_SENTENCE_BORDER` takes long to compile."""
    return bool(re.search(r"[.!?]\s|\n|。|！|？", text))


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence of a text begins and ends, without the blanks around it.

    >>> text = "Ask Dr. Lee, e.g. on Mondays. 1. Build 2. Tag"
    >>> [text[start:end] for start, end in find_sentences(text)]
    ['Ask Dr. Lee, e.g. on Mondays.', '1. Build 2. Tag']
    """
    borders = [(len(text), len(text))]
    if _may_have_borders(text):
        borders = [*(match.span() for match in re.finditer(_SENTENCE_BORDER, text)), *borders]
    start = 0
    for end, following in borders:
        sentence = text[start:end]
        number = re.search(_NEXT_NUMBER, sentence[-4:])
        if number and re.search(rf"(?<!\S){int(number[0]) - 1}\. ", sentence):
            continue  # a numbered list in one line
        if re.search(r"\w", sentence):
            yield end - len(sentence.lstrip()), start + len(sentence.rstrip())
        start = following


def bullet_length(sentence: str) -> int:
    """Return how many characters of a sentence are the mark of a list item."""
    return len(sentence) - len(re.sub(rf"\A{_BULLET_MARK}", "", sentence))


def is_question(sentence: str) -> bool:
    """Return True if a sentence ends as a question does.

    >>> is_question("Is it Friday? "), is_question("它在哪里呢")
    (True, True)
    """
    return bool(re.search(_QUESTION_END, sentence))


def lacks_subject(text: str) -> bool:
    """Return True if nobody understands how a text begins without what was said before it.

    >>> lacks_subject("it's 9090 now"), lacks_subject("sorry, 3001"), lacks_subject("3001 was right")
    (True, True, True)
    >>> lacks_subject("This project uses pnpm"), lacks_subject("Ask Kim before running it.")
    (False, False)
    """
    return bool(re.match(_LEANING_START, without_opening(text)) or re.fullmatch(_BARE_VALUE, text))


def leans_back(sentence: str) -> bool:
    """Return True if a sentence belongs to the one before it.

    >>> leans_back("It runs at night."), leans_back("But not on Fridays."), leans_back("Ask Kim before running it.")
    (True, True, True)
    >>> leans_back("And in this project the staging db is wiped."), leans_back("We use pnpm.")
    (False, False)
    """
    return lacks_subject(sentence) or bool(re.match(_LEANING_OTHERWISE, sentence))


MAX_NAME_CHARS = 60
MIN_NAME_WORDS = 3  # of a name that is cut
# How people begin before they say something: with a word that says nothing there, or one that does before a comma.
_OPENING = (
    r"(?i)\A(?:(?:[-*•>]|#+|\d{1,2}[.)])\s+)?(?:"
    r"(?:hi|hello|hey|hallo|moin|bonjour|salut|hola"
    r"|oh|ah|uh|um|hm+|okay|ok|well|so|right|also|and|but|anyway|btw|by the way|fyi|(?:no|oh|ah) wait|wait|no|yes"
    r"|actually|sorry"
    r"|nein|non|não|нет"
    r"|correction|one (?:more |other )?(?:thing|correction|note)|last one|another thing|quick note|while at it"
    r"|(?:just )?so (?:that )?you know|just fyi|heads up|turns out|please|pls|bitte|ach ja|ah ja|übrigens"
    r"|au fait|ah oui|s['’]il te pla[iî]t|por cierto|ah sí|por favor|aliás|então|comunque|allora|per favore|proszę"
    r"|кстати|пожалуйста|对了|對了|顺便说一下|另外|ところで|そういえば|ちなみに|あ)(?:\s*[,:;!、，：–—]|\s+-)+\s*"
    r"|(?:and|also|but|anyway|btw|by the way|fyi|oh|ok|okay|actually|turns out|please|pls|bitte|übrigens|кстати)\s+"
    r"|just fyi\s+|(?:so|well)\s+(?=(?:i|we|you|the|my|our|it|they|he|she|actually)\b)"
    r"|(?<=[,;:!] )so\s+(?!(?:far|that|long|many|much)\b))*"
)
_BARE_ANSWER = r"(?i)\A(?:no|nope|nein|non|não|нет|yes|ok|okay|right|sorry)[.!]\s+(?!\d)"  # "No. 5" is none
MAX_DESCRIPTION_CHARS = 120
# The title of older sentences that are kept below the new one, with the day of which they are.
_EARLIER = r"\n\s*\n(?:Before that|Still true in part|Earlier)(?:, as of [\w -]+)?:\s*\n"

_FIRST_SENTENCE_END = rf"(?<=[^\W\d_][.!?])(?i:{_NO_SENTENCE_END})\s+(?![a-z])|(?<=[。！？])|\n+"
# Descriptions as earlier versions made them: "When it is about deploy, Fridays, standup", in six languages.
_TOPIC_LIST = (
    r"(?:When it is about |Wenn es um |Quand il s'agit de |Cuando se trata de |涉及)(.+?)(?: geht|时)?…?|(.+)のとき…?"
)


def make_name(text: str) -> str:
    """Return the first sentence without "oh, by the way", cut behind a word if it is long.

    >>> make_name("I prefer pnpm."), make_name("- No emojis in commits\\n- No tabs")
    ('I prefer pnpm', 'No emojis in commits')
    >>> make_name("Oh, one more thing: Jonas does the frontend for the shop, he is an hour behind us")
    'Jonas does the frontend for the shop, he is an hour behind…'
    >>> make_name("Jonas does not answer mail before noon unless the frontend of the shop is down")
    'Jonas does not answer mail before noon unless the frontend…'
    """
    return _shorten(text, MAX_NAME_CHARS)


def make_description(text: str) -> str:
    """Return the fact itself as one line: the first sentence, cut behind a word where it is long."""
    return _shorten(text, MAX_DESCRIPTION_CHARS)


def _shorten(text: str, limit: int) -> str:
    """Return the first sentence of a text, cut behind a word within a limit, and not behind "not" or "the"."""
    sentence = _first_sentence(text)
    if len(sentence) <= limit:
        return sentence
    shown = sentence[: limit - 1]
    if " " in shown:
        shown = sentence[:limit].rpartition(" ")[0]
    groups = common_words(sentence)
    words = shown.split(" ")
    while len(words) > MIN_NAME_WORDS and groups.get(words[-1].lower().strip(",;:"), "w") in "nfe":
        words.pop()
    return " ".join(words).rstrip(" ,;:–—-，；、") + "…"


def split_parts(body: str) -> list[str]:
    """Return a text, and the older ones that are kept below it."""
    return re.split(_EARLIER, body.strip())


def current_part(body: str) -> str:
    """Return a text without the older ones that are kept below it."""
    return split_parts(body)[0]


def is_made_from(body: str, description: str) -> bool:
    """Return True if nobody wrote this description: it repeats the text, or lists topics as earlier versions did.

    >>> is_made_from("I prefer pnpm.", "I prefer pnpm"), is_made_from("I prefer pnpm.", "Package manager")
    (True, False)
    """
    line = without_opening(body).rstrip(" .。")
    is_made = re.fullmatch(_TOPIC_LIST, description) or description in (make_name(body), make_description(body))
    return bool(is_made) or line.startswith(without_opening(description).rstrip(" .。…"))


def _first_sentence(text: str) -> str:
    """Return the first sentence; of a question also the answer behind it.

    Behind it stand those that are kept below, or the oldest: "it's 9090 (before: The port is 80)".
    """
    sentence, *earlier = split_parts(re.sub(_BARE_ANSWER, "", text.strip()))
    if re.fullmatch(LIST_OF_WORDS, sentence):
        sentence = re.sub(r"\s*\n\s*[-*•–]", ",", sentence)
    if earlier:
        lines = list(map(make_description, earlier))
        now = sentence.rstrip(" .。")
        sentence = f"{now} (before: {'; '.join(lines)})"
        if len(sentence) > MAX_DESCRIPTION_CHARS:
            sentence = f"{now} (before: {lines[-1]})"
    if _may_have_borders(sentence):
        ends = (end.start() for end in re.finditer(_FIRST_SENTENCE_END, sentence))
        sentence = next((first for end in ends if not is_question(first := sentence[:end])), sentence)
    sentence = without_opening(sentence)
    return sentence.rstrip(" .。:：") or sentence


def without_opening(text: str) -> str:
    """Return a text in one line, without what says nothing there, such as "oh, by the way" and "no,"."""
    line = " ".join(text.split())
    return re.sub(_OPENING, "", line) or line


def lists_topics(memory: Memory) -> bool:
    """Return True if an earlier version described a memory by words of its text.

    An agent's description stands. One that was extracted or imported may be a model's: only the old rules took all
    their words from the text.
    """
    listed = re.fullmatch(_TOPIC_LIST, memory.page.get("description"))
    if not listed or memory.source == "agent":
        return False
    if memory.source == "user" and not memory.changed_by:
        return True
    text = f"{memory.name}\n{memory.body}"
    return all(topic in text for topic in (listed[1] or listed[2]).split(", "))


def shown_description(memory: Memory) -> str:
    """Return the description of a memory, or its first sentence where an earlier version listed topics instead."""
    return make_description(memory.body) if lists_topics(memory) else memory.description
