"""Tokenizer for search: the same for what is stored and for what is asked.

Letters are lower case and without accents, English words are cut to their stems and those that say nothing are left
out. `snake_case`, `CamelCase` and paths fall into the parts that people remember, and stay findable as a
whole. Scripts that write no spaces are cut into pairs of characters.

>>> words("Deploying with CI/CD: see deploy_prod.sh and AuthService")
['deploy', 'ci', 'cd', 'see', 'deploy', 'prod', 'sh', 'auth', 'servic', 'authservic']
>>> words("日本語のメモ")
['日本', '本語', '語の', 'のメ', 'メモ', 'モ']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain

MAX_WORD_CHARS = 40  # longer runs are keys and hashes: found by their beginning

_WORD_PATTERN = re.compile(r"[^\W_]+")
_BLANKED_SIGNS = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))  # many times as fast
_HUMP_PATTERN = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

# Scripts as the inside of a character class. The first two are written without spaces. Korean has spaces, and is cut
# into pairs for search because its particles are part of the word.
HAN_AND_KANA = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED = f"{HAN_AND_KANA}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # and Thai, Lao, Myanmar, Khmer
CUT_INTO_PAIRS = f"{UNSPACED}\uac00-\ud7af"

_STOP_WORDS = """
a about all also am an and any are as at be because been being but by can could did do does doing don for from get
got had has have having he her here hers him his how i if in into is it its just me more most my no nor not now of
on only or our out please s she should so some such t than that the their them then there these they this those
through to too up us very was we were what when where which while who whom why will with would you your
"""
_SAYING_NOTHING = frozenset(_STOP_WORDS.split())
_WEAK_WORDS = """
able actually add again ago agree already always another answer anybody anyone anything anyway app around ask away
back bad begin best better big bit bring call came care case change check choose clear code come complete correct
create current day decide default detail different done down easy else end enough even ever every everyone
everything exactly example exist expect explain fact fast feel file find fine first fix follow form found full
general get give go good great guess hand happen hard hello help hi hope idea important include instead issue keep
kind know large last later least left less like line list little long look lot main make many matter may maybe
mean mention might mind minute moment month move much must name near need never new next nice nothing number often
ok okay old one open part people perhaps place point possible prefer pretty probably problem put question quick
quite read ready real really reason recommend remember remove reply right run said say second see seem send set
several shall short show simple since small something sometimes soon sorry start state still stop stuff suggest
sure take talk tell thank thing things think though three time today together tomorrow tonight true try turn two
type under understand until update upon use useful usual version wait want way week well whatever whether whole
wish without wonder word work world worth write wrong year yes yesterday yet
"""
# the same in the languages that share our letters, without accents
_WEAK_ABROAD = """
al algunos antes au aussi auch auf aux avec bien bitte ca ce cela ces cette comme como con contra cuando da dann danke
dans das de del dem den der des desde deux die donde dos du durch durante ein eine einem einen einer el elle en entre
er era es esa ese eso est esta estas este esto et etait etre fur gibt gracias haben hasta hat hay hier ich ihr il ils
im ist je jetzt kann kein keine la las le les leur lo los ma mais mas mehr merci mi mir mit moi mon muy nach nada ne
ni nicht noch nos notre nous nur o oder oui ou para parfait pas pero plus por porque pour puede que quel quelle quien
qui sa sans se sein ses sehr si sich sie sigue sin sind sobre son su sur sus tambien tanto te tiene todo tout tres tu
uber um un una und une uno unos unser uns vale vielen vom von vor vos votre vous wann war warum was wenn wer werden
wie wieder wir wird wo y ya yo zu zum zur
"""


def is_unspaced(text: str) -> bool:
    """Return True if there are letters of a script without spaces."""
    return not text.isascii() and bool(re.search(f"[{UNSPACED}]", text))


def is_weak(word: str) -> bool:
    """Return True if it says little to have this word of `words` in common: talk, a letter, a small number."""
    return word in _weak_stems() or bool(re.fullmatch(r"[\0-\x7f]|[0-9]{2}", word))


@cache
def _weak_stems() -> frozenset[str]:
    """Return stems of words that occur in talk of any kind: to have one in common is no sign of a common subject."""
    return frozenset(map(stem, (_WEAK_WORDS + _WEAK_ABROAD).split()))


def words(text: str) -> list[str]:
    """Return the words of a text in their order, as often as they occur."""
    if text.isascii():
        runs = text.translate(_BLANKED_SIGNS).split()
    else:
        runs = _WORD_PATTERN.findall(unicodedata.normalize("NFKC", text))
    return list(chain.from_iterable(map(_parts, runs)))


@lru_cache(maxsize=1 << 15)
def _parts(word: str) -> tuple[str, ...]:
    """Return what one run of letters and digits is looked for by."""
    if not word.isascii():
        return tuple(_of_any_script(word))
    lower = word.lower()[:MAX_WORD_CHARS]
    if lower in _SAYING_NOTHING or not lower:
        return ()
    parts = []
    if word[1:] != word[1:].lower():
        humps = [hump.lower() for hump in _HUMP_PATTERN.findall(word)]
        if len(humps) > 1:
            parts = [stem(hump) for hump in humps if hump not in _SAYING_NOTHING and len(hump) > 1]
    return (*parts, stem(lower))


def _of_any_script(word: str) -> Iterator[str]:
    for pairs, piece in re.findall(f"([{CUT_INTO_PAIRS}]+)|([^{CUT_INTO_PAIRS}]+)", word):
        # the last character alone, so that whoever asks for a single one finds it wherever it stands
        yield from (pairs[at : at + 2] for at in range(len(pairs)))
        bare = "".join(sign for sign in unicodedata.normalize("NFKD", piece) if not unicodedata.combining(sign))
        if bare.isascii():
            yield from _parts(bare)
        else:
            yield stem(bare.casefold()[:MAX_WORD_CHARS])


# The English stemmer: Porter's algorithm of 1980 with its two later additions, and one rule of his second algorithm:
# `y` becomes `i` only after a consonant, so that "deploy" and "deployment" are one.

_PLURAL_ENDING = r"(?<=ss)es$|(?<=i)es$|(?<!s)s$"
_LONG_ENDINGS = [
    dict(pair.split(":") for pair in pairs.split())
    for pairs in (
        "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize"
        " ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log",
        "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:",
    )
]
_LAST_ENDING = "(?:ement|ance|ence|able|ible|ment|ent|ant|ism|ate|iti|ous|ive|ize|(?<=[st])ion|al|er|ic|ou)$"


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """Return the stem of a word in lower case; what is not plain letters stays as it is."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_past(re.sub(_PLURAL_ENDING, "", word))
    if word.endswith("y") and re.fullmatch(".*V.*C", _form(word[:-1])):
        word = word[:-1] + "i"
    for endings in _LONG_ENDINGS:
        ending = max((ending for ending in endings if word.endswith(ending)), key=len, default="")
        start = word.removesuffix(ending)
        if ending and _measure(start):
            word = start + endings[ending]
    last = re.search(_LAST_ENDING, word)
    if last and _measure(word[: last.start()]) > 1:
        word = word[: last.start()]
    if word.endswith("e") and (_measure(word[:-1]) > 1 or (_measure(word[:-1]) and not _ends_short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _without_past(word: str) -> str:
    """Return a word without the ending of its past or present form, mended where that leaves no word."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    ending = re.search("(?:ed|ing)$", word)
    if not ending or "V" not in _form(word[: ending.start()]):
        return word
    start = word[: ending.start()]
    if start.endswith(("at", "bl", "iz")) or (_measure(start) == 1 and _ends_short(start)):
        return start + "e"
    is_double = re.search(r"(.)\1$", start) and _form(start).endswith("C") and start[-1] not in "lsz"
    return start[:-1] if is_double else start


def _form(word: str) -> str:
    """Return the word as vowels and consonants: `V` and `C`."""
    return re.sub("[^V]", "C", re.sub("[aeiou]|(?<=[^aeiou])y", "V", word))


def _measure(word: str) -> int:
    """Return how often vowels are followed by consonants."""
    return len(re.findall("V+C+", _form(word)))


def _ends_short(word: str) -> bool:
    """Return True if a word ends consonant, vowel, consonant, the last of them none of w, x, y."""
    return _form(word)[-3:] == "CVC" and word[-1] not in "wxy"
