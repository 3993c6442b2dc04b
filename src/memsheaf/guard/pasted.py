"""The user's own words in a message, apart from text of somebody else that is pasted into it.

A paste is known by its form, in this order:

1. Marks on both sides (fences, quotation marks, comments, elements) show where it begins and ends. What is between
   them is blotted out (`text/spoken.py`).
2. A line has the shape of a record: a log, a ticket, a mail header, a comment, a diff, a shell prompt, the heading of
   a page or a release (`LINE_SHAPES`).
3. A line or a clause introduces a text: it ends in a colon, or names a text ("reply to this mail", "Bob says").
4. The message as a whole is a letter, a table or a list of fields.

In the last three nobody can see where the paste ends. So a person is asked about all that follows, or about the
whole message, and nothing is confirmed. Words matter in step 3 (`_INTRODUCING_PHRASES`, and `_OWN_LABEL` for labels
behind which the user goes on, such as "remember:") and for the greetings and endings of letters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from memsheaf.memory import MISLEADING
from memsheaf.text.neutralize import visible
from memsheaf.text.spoken import SHOWN, spoken

OTHERS_MARK = "\ufffb"  # stands for each character that is somebody else's, so that places in both texts are the same
MAX_TYPED_CHARS = 400  # a longer message may be pasted
MAX_READ_CHARS = 8_192  # of a longer message, its beginning and its end are read
MAX_NAME_WORDS = 3  # in quotation marks; more are a quotation
PASTED_DOUBT = "it may be pasted: a person has to say that these are their words"

_LONG_KEY = (
    r"(?<![\w/+=-])(?=[\w/+-]*\d)(?=[\w/+-]*[A-Z])[\w/+-]{40,}={0,2}(?![\w/+=-])|(?<!\S)[\w/+-]{22,}={1,2}(?!\S)"
)
_LINKED_SENTENCE = (
    r"\[(?:[^\]\[\n\s]++\s+){3}[^\]\[\n]{0,400}\]\([^)\n]{0,400}\)"  # a sentence that is the text of a Markdown link
)
_ADDRESS_WITH_TEXT = r"\bhttps?://\S*[?&#]\S*=[^\W\d_]+ "  # a query with blanks goes on behind them
_PAGE_NUMBER = (
    r"\W{0,4}(?:(?:page|seite|página|pagina|strona)?\s?\d+ ?(?:of|von|de|sur|di|/) ?\d+|(?:page|seite) \d+)\W{0,4}$"
)
_SHOWN_LINE = (
    r"[|+]|    |\t|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error|fatal) ?[]:]"
    rf"|[^\n]*[{MISLEADING}]"
)
_CLAUSE_END = r"\n|[.!?](?=\s|$)|:(?=\s|$)|[。！？：]|(?<=\s)[-–—](?=\s)|$"
_BULLET_MARK = r"\s*(?:[-*•–]|\d{1,2}[.)])\s"
_SALUTATION_LINE = r"\s*+(?:[^\W\d_]++\.?\s?){1,3}[,，]\s*$"
_QUOTED_ON = r"(?m)^[ \t]*>[^\n]*\n(?![ \t]*(?:>|$))"  # in Markdown the line below a quoted one is quoted, too
_FIELD_LINE = r"\W{0,3}[\w@#/.() -]{1,30}[:：=]\s+\S"
_FIRST_PERSON = r"(?:i|we|ich|wir|je|j'|nous|on|yo|nosotros)\b|我|私"
_NAME_OR_TITLE = (
    r"[A-Z]\S*(?: \S+)?|(?:.*\S )?(?:[A-Z][a-z]+ [A-Z][a-z]+|(?<=\s)[A-Z][a-z]+|\S+'s)\b.*"  # a name or title
)

LINE_SHAPES = {
    "log": (
        r"\[?\d{4}-\d\d-\d\d[T ]\d|\[?\d\d?:\d\d:\d\d|\[(?:\w+ )?\d\d?:\d\d|\d\d?:\d\d \S+:"
        r"|\[?\d\d?[/.]\d\d?[/.]\d{2,4},? \d\d?:\d\d|(?-i:[A-Z])[a-z]{2} +\d\d? \d\d:\d\d:\d\d|(?:\S+ ){3}\[\d\d/"
        r"|(?:\w+=\S+ ){2}"
    ),
    "ticket": (
        r"\W{0,2}(?-i:[A-Z][A-Z0-9]+)-\d+\]?\s*[]|:·•–]|#\d+\s*[|:·•]|[^\n]{1,200}?\s[|·•]\s+\w[\w ]{0,20}:\s"
        r"|commit [0-9a-f]{7}"
    ),
    "mail": (
        r"\W*(?:from|to|cc|subject|betreff|von|an|asunto|para|de|objet|à|发件人|收件人|主题|件名|差出人|宛先)"
        r"\s*[:：]\s*\S|-{3,} ?\w|(?:on|am|le|el|il|em|op|w dniu) [^\n]{0,80}\d[^\n]{0,80}"
        r"\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|napisał)\b[^\n]{0,80}[:：]\s*$"
    ),
    "heading": (
        rf"{_PAGE_NUMBER}|\W{{0,4}}(?:version |release )?v?\d+\.\d+[\w.+-]*\]?\s*(?:[-–—(][^\n.!?]{{0,40}})?$"
        r"|\W{1,4}unreleased\]?\s*$"
    ),
    "chat": (
        r"[^\n.!?]{1,60}\bago\b\W*$|<\w+>\s|[^\n]{1,60}\s[·•]\s[^\n.!?]{1,30}$"
        r"|\W{0,4}(?:answer|ask|post|comment|review|publish|submit|report)\w* by [^\n.!?:]{1,60}(?=:|$)"
        r"|\S+(?: \S+){0,3}(?: {2,}| *[—–|·•,] *| +[\[(])(?:(?:today|yesterday) at )?\d\d?[:h.]\d\d\b"
    ),
    "comment": (
        r"//|/\*|#(?!\w)|--[ \[]|;+\s|%+\s|['\"]\s|(?-i:REM)\s"
        r"|[^\n]*(?:[;{}]\s*(?://|#|--)|\)\s*//|:\s*(?://|--|%%))\s"
    ),
    "code": (
        r"(?:(?:const|let|var|local|export|set|static)\s)?[\w.-]+ ?[:+]?= ?\S|[^\n]*[=(][^\n]*[;{]\s*$|#!|BEGIN:"
        rf"|[{{\[]\s*(?:$|[{{\"{SHOWN}])|\"[\w-]+\"\s*:|[^\n\t]*\t[^\n\t]*\t"
    ),
    "markup": r"</?[a-z!?][^<>\n]*>|\\[a-z]+[{\[]|\.\. \w[\w-]*::|=[a-z]+\s*$|(?-i:[A-Z]{4,}[A-Z ]*)\n(?: {3}|"
    + SHOWN
    + ")",
    "diff": r"diff --git |@@ |--- \S|\+\+\+ \S|index [0-9a-f]{7}",
    "stack trace": r"Traceback|\s+at \S+\(|\w+(?:\.\w+)*(?:Error|Exception)\b|Exception in|Caused by:"
    r"|\s*File \S+, line",
    "address to agents": (
        r"[^\n]*\b(?:notes?|notice|instructions?|attention|message)\W+(?:(?:to|for)\W+)?(?:all\W+|any\W+)?"
        r"(?:(?:ai|llm|coding)\W+)?(?:agents?|assistants?|bots?|models?|llms?|ais?)\s*:"
    ),
    "shell": r"[$%❯➜]\s|[\w.-]+@[\w.-]+[:~ ][^\n]{0,80}[$#]\s|>>>\s|In \[\d+\]:|PS [A-Z]:"
    rf"|[^\n]*<<[-~]?\s?['\"\\]?[\w{SHOWN}]+",
}
"""Shapes of a line at which a paste begins, each tried at the beginning of a line."""

_TEXT_NOUNS = (
    r"(?:(?:e-?)?mails?|messages?|letters?|tickets?|issues?|comments?|posts?|threads?|chats?|conversation|transcript"
    r"|logs?|output|errors?|(?:stack ?)?trace|articles?|(?:web)?pages?|(?:web)?site|blog|docs?|document(?:ation)?"
    r"|readme"
    r"|snippet|code|text|paragraph|section|clause|statement|notice|announcement|memo|minutes|invoice|contract"
    r"|agreement|terms|description|spec|requirements|prompt|instructions|reports?|responses?|repl(?:y|ies)|requests?"
    r"|changelog|tweet|dm|sms|voicemail|newsletter|agenda|excerpt|passage|draft|resume|cv|feedback|faq|manual|posting"
    r"|listing|ad|config|json|yaml|csv|html|xml|diff|patch|pr|pull request|quote|paste|reviews?|answers?|advice|guide"
    r"|tutorial|story|poem"
    r"|nachricht|brief|kommentar|artikel|seite|fehler|protokoll|meldung|vertrag|rechnung|beitrag|dokument|schreiben"
    r"|anfrage|antwort|absatz|notiz(?:en)?"
    r"|courriel|lettre|commentaire|texte|page|erreur|journal|contrat|facture|annonce|demande|réponse|notes?"
    r"|correos?|mensaje|carta|comentario|texto|artículo|página|registro|contrato|factura|documento|publicación"
    r"|anuncio"
    r"|solicitud|respuesta|notas?)"
)
_SAYING_VERBS = (
    r"(?:says|said|saying|writes|wrote|written|sent|sends|posted|posts|emailed|mailed|forwarded|messaged|texted"
    r"|replied"
    r"|answered|commented|reads|states|stated|announced|published|(?:told|tells|asks|asked|wants) (?:me|us)"
    r"|complain(?:s|ed)"
    r"|demands|schreibt|schrieb|sagte?|meinte?|schickte|geschickt|bekommen|erhalten|weitergeleitet|laut|kommentierte"
    r"|dit|écrit|reçu|envoyé|transféré|selon|d'après|dice|dijo|escribe|escribió|envió|mandó|recibí|reenvió|según)"
)
_POINTING_WORDS = (
    r"(?:this|these|that|those|following|attached|another|his|her|their|an?|some"
    r"|diese[rsnm]?|folgende[rsnm]?|eine[nrm]?|ein|seine|ihre|cet?|cette|ces|une?|son|sa|leur|est[ae]s?|estos"
    r"|es[ea]|un|su)"
)
_INTRODUCING_PHRASES = (
    rf"\b{_POINTING_WORDS} (?:[\w'-]+ ){{0,2}}{_TEXT_NOUNS}\b|\b(?:here is|here's|here are|this is"
    rf"|these are) (?:[\w'-]+ ){{1,3}}{_TEXT_NOUNS}\b",
    rf"\b{_TEXT_NOUNS} (?:below|above|attached|from|(?:i|we) (?:got|received|found|copied)|unten|vom?|du|de"
    r"|ci-dessous|suivante?|siguiente|abajo)\b",
    rf"\b(?:look at|check|read|see|review|open|consider) (?:[\w'-]+ )?{_TEXT_NOUNS}\b|\bof the following\b"
    r"|\bversion of\b",
    rf"\b{_SAYING_VERBS}\b(?! que\b)",
    r"\b(?:translate|summari[sz]e|proofread|rewrite|rephrase|paraphrase|tl;?dr|eli5|transcribe|grammar|thoughts|wdyt"
    r"|opinions|any ideas?|what do you (?:think|make of)|according to|here it is|check this out|(?:look|see) what)\b",
    r"\b(?:reply|respond|react|answer|write back) (?:to|on|this|that|them|him|her)\b|\b(?:got|received|found|copied"
    r"|pasted"
    r"|forwarded|quot(?:e|ing)|seen|read) (?:this|that|these|the following|it)\b",
    r"\bwhat (?:does|do|did) (?:this|that|it|he|she|they) (?:mean|say)\b|\b(?:is|was|are) (?:this|that|it) (?:legit"
    r"|true|real"
    r"|spam|phishing|a scam|scam|correct|ok|okay|right|fine)\b",
    r"\b(?:can you|could you|please) (?:review|explain|correct|shorten|improve|check|analy[sz]e|fix|edit|comment on"
    r"|parse"
    r"|convert|look at|handle|process) (?:this|these|the following|what follows|below)\b",
    r"\b(?:übersetze?|fasse|korrigiere|erkläre|prüfe|überarbeite|lies|beantworte) (?:das|dies|den|die|mir|folg)"
    r"|\b(?:antworten?|reagiere) (?:auf|darauf|ihm|ihr)\b|\bwas (?:meint|heißt|bedeutet|sagst|hältst)\b"
    r"|\bschau mal\b",
    r"\b(?:traduis|résume|corrige|explique|reformule|relis|répond|réagi)|\bqu'en penses-tu\b|\bregarde (?:ce|ça)\b",
    r"\b(?:tradu[cz]|tradúce|resum|resúme|corri[gj]|corríge|expli[cq]|reescrib|revisa|respond|contest)"
    r"|\bqué (?:opinas|significa|te parece)\b|\bmira (?:esto|lo que)\b",
    r"(?:这|那|此|下面|以下|如下|下列|一封|一条|收到)的?[个封段篇条则份]?(?:邮件|信|消息|文章|评论|工单|问题|日志"
    r"|报错|文字|内容|网页|公告|通知"
    r"|文档|聊天|帖子|代码|截图)|(?:回复|回信|解释)(?:一下)?[这下如以此]|翻译|总结|改写|润色|校对|概括|写道|说道"
    r"|发来|转发|收到"
    r"|(?:[他她]们?|老板|客户|群里)说|看看这|怎么看|什么意思",
    r"(?:この|その|次の|以下の|下記の|こんな|届いた)(?:メール|メッセージ|文章|記事|コメント|チケット|問題|ログ"
    r"|エラー|文|手紙|ページ|通知|資料"
    r"|投稿|チャット|内容)|(?:翻訳|要約|校正|添削|説明|返信|返事)(?:して|お願い|を)|と[言書][いっわ]|から届い"
    r"|が来ました|どう思|どういう意味|によると",
)
"""Words that introduce a text of somebody else, in the sentence before it."""

_ANNOUNCING_END = (
    r"\b(?:as follows|the following(?: \w+)?|what follows|the (?:words|text) below|folgendes|das folgende|wie folgt"
    r"|ce qui suit"
    r"|comme suit|ceci|la chose suivante|lo siguiente|lo que sigue|como sigue)\W*$"
    rf"|\b{_SAYING_VERBS} (?:(?:just|exactly|only|simply) )?(?:to (?:me|us) )?(?:this|these|below|dies"
    r"|das(?: hier)?|cela|ça|esto|eso)\W*$"
    r"|(?:如下|如下所述|以下内容|下面的内容|以下的话)\W*$|(?:以下|次)の(?:通り|とおり|内容)(?:です|でした)?\W*$"
)
_POINTS_AT_TEXT = (
    r"\b(?:this|these|below|following|follows|attached|here|it says|above|pasted|they|s?he|das|diese?[rsn]?"
    r"|folgende[sr]?|unten"
    r"|hier|er|sie|cet?|cette|ces|ça|ceci|ci-dessous|suivant|voici|elle|est[aeo]s?|estos|eso|siguiente|abajo|aquí"
    r"|él|ella)\b"
    r"|这|下面|以下|如下|上面|他|她|これ|この|下記|次の|上の|彼"
)
_OWN_NOUNS = (
    r"(?:reminders?|decisions?|corrections?|rules?|preferences?|conventions?|habits?|facts?|guidelines?|standards?"
    r"|settings"
    r"|things?|points|wishes|style|stack|setup|practices?|defaults|likes|dislikes|peeves|tools|requests|expectations"
    r"|principles|regeln|vorlieben|konventionen|gewohnheiten|wünsche|vorgaben|fakten|règles|préférences|habitudes"
    r"|consignes"
    r"|souhaits|reglas|preferencias|convenciones|costumbres|hábitos|normas)"
)
_OWN_LABEL = (
    r".*\b(?:remember|memori[sz]e|in mind|learn|merke?n?|beachten?|erinnere|behalte|retiens|retenez|souviens-toi"
    r"|mémorise"
    r"|n'oublie pas|recuerd[ae]|memoriza|anota|ten en cuenta|no olvides)\b.*"
    r"|.*(?:记住|记得|记下|规则|偏好|习惯|约定|规范|要求|以后|今后|覚えて|記憶して|ルール|好み|規約|習慣|方針"
    r"|お願い|今後|これから).*"
    rf"|.*\b(?:my|our|meinen?|unseren?|mes|nos|mis|nuestr[ao]s)\b.*\b{_OWN_NOUNS}\b.*|.*\bhow (?:i|we)\b.*"
    rf"|(?:(?:{_OWN_NOUNS}|please|also|note|to self|update|wrong|sorry|no|change of plans?|then|fyi|btw|ps|context"
    r"|important"
    r"|here|are|an?|one|two|three|few|some|more|another|new|the|for|in|this|you|next time|future|from now on"
    r"|going forward"
    r"|always|never|do|don't|team|project|repo|coding|ab sofort|ab jetzt|künftig|zukunft|immer|nie|bitte|diesem"
    r"|projekt|die"
    r"|désormais|dorénavant|à partir de maintenant|toujours|jamais|les|quelques|a partir de ahora|siempre|nunca|las"
    r"|unas)"
    r"\b\W*)++"
)
_GREETING_START = (
    r"\s*(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day)|welcome|hallo|moin|servus|guten (?:tag"
    r"|morgen|abend)"
    r"|bonjour|bonsoir|salut|coucou|hola|buen[oa]s (?:días|tardes|noches)|您好|你好|大家好|こんにちは|お疲れ"
    r"|はじめまして|お世話になって)"
)
_FORMAL_START = (
    r"\s*(?:dear|to whom it may concern|attention|sehr geehrte|liebe[rs]?|werter?|ch[eè]re?s?|madame|monsieur"
    r"|mesdames|messieurs"
    r"|estimad[oa]s?|querid[oa]s?)\b|\s*(?:尊敬的|亲爱的|各位|大家好|拝啓|お世話になって|皆さん|皆様)"
    rf"|{_GREETING_START}?[\s,]*(?:to |à |a )?(?:all|team|everyone|everybody|folks|colleagues|guys|zusammen"
    r"|alle|ihr|tous|tout le monde|todos|todas|equipo)\b[,:!]"
)
_TO_A_PERSON = (
    rf"{_GREETING_START}\s+(?!there|again|claude|assistant|chatgpt|gpt|bot|agent|ai\b|i\b|i'|my\b|can\b|could\b|please\b)"
    r"\w+(?: \w+)?\s*[,!.\n-]|#+ "
)
_COURTESY_WORDS = (
    r"(?:please|pls|plz|ok|okay|and|also|so|thanks|thank you|thx|cheers|best|great|good|nice|remember (?:that|this"
    r"|it)|save (?:that|this)"
    rf"|danke|bitte|merci|stp|gracias|por favor|谢谢|请|ありがとう(?:ございます)?|よろしく|{_GREETING_START}|\W)*+"
)
_SIGNATURE_END = (
    r"(?:^|\n)[ \t]*+(?:--\s*|(?:[–—]|--)\s*(?-i:[A-Z])[^\n.!?]{1,40})$|\s[–—]\s?(?-i:[A-Z])\w+\s*$"
    r"|(?:^|\n)[ \t]*+(?:[^\W\d_]++\s?){1,4}[,，]\s*\n\s*[^\n.!?]{2,60}(?:\n[^\n.!?]{1,60}){0,3}$"
    r"|\n[^\S\n]*\n[ \t]*+(?:[^\W\d_]++[ \t]?){1,3}\n[ \t]*+(?-i:[A-Z])[^\n.!?:]{1,40}$"
    rf"|\n{_PAGE_NUMBER}"
    r"|(?:^|\n|[.!?]\s)[ \t]*+(?:[^\W\d_]++\s?){1,3}[,，]\s+(?!claude|chatgpt"
    r"|gpt)(?-i:[A-Z])\w+(?:\s(?-i:[A-Z])\w+)?\.?$"
)


class OwnWords(NamedTuple):
    """A message, and as long as it, the same with all blotted out that the user does not say.

    From `sign` on it may be somebody else's. Before that a person is asked about what is said behind `sure`, about
    what is merely `said` in a long message, and about all of an `odd` one.
    """

    text: str
    spoken: str
    sign: int
    sure: int
    said: str = ""
    odd: str = ""

    def doubt(self, end: int, *, asked: bool) -> str:
        """Return why what is asked for, or merely said, up to this place needs a person first, else ""."""
        if end >= self.sure and self.sure < len(self.text):
            return PASTED_DOUBT
        return self.odd or ("" if asked else self.said)

    def own(self, *, sure: bool = True) -> str:
        """Return the user's words; without `sure`, those that may be, too. Names in code count, quotations do not."""
        if sure and (self.odd or self.said):
            return ""
        own = self.spoken[: self.sign]
        shown = [self.text[run.start() : run.end()] for run in re.finditer(f"{SHOWN}+", own)]
        is_name = re.compile(rf"`[^\n]*|\S*(?:[^\S\n]+\S+){{0,{MAX_NAME_WORDS - 1}}}")
        return "\n".join([own, *filter(is_name.fullmatch, shown)])


def read_own_words(text: str) -> OwnWords:
    """Return what the user says in a message, and from where on it may be somebody else.

    >>> own = read_own_words("Reply to this mail:\\nWe moved.")
    >>> own.text[own.sign :]
    '\\nWe moved.'
    """
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("\r\n", "\n")
    is_hiding = len(visible(text)) != len(text)
    if is_hiding:
        parts = re.split(f"([{MISLEADING}]+)", text)
        parts[::2] = map(visible, parts[::2])
        text = "".join(parts)
    half = end = len(text)
    read = text
    if end > MAX_READ_CHARS:
        half = MAX_READ_CHARS // 2
        middle = end - MAX_READ_CHARS
        gap = f"\n{OTHERS_MARK * middle}"[: middle - 1] + "\n"  # as long as what it stands for
        read = text[:half] + gap + text[-half:]
    said = re.sub(f"{_LONG_KEY}|{_LINKED_SENTENCE}", lambda match: OTHERS_MARK * len(match[0]), spoken(read))
    said = _blot_lines(_SHOWN_LINE, said)
    address = re.search(_ADDRESS_WITH_TEXT, read)
    sign = min(_find_sign(said), half, address.start() if address else end)
    said = _blot_lines(LINE_SHAPES["log"], said)
    own = said[:sign]
    is_odd = is_hiding or _is_letter_or_table(read, own)
    paragraphs = re.split(r"\n[^\S\n]*\n(?!\s*[-*•–]\s)", own)
    full = [paragraph for paragraph in paragraphs if not _any_case(_COURTESY_WORDS).fullmatch(paragraph)]
    is_long = len(full) > 1 or len(own.replace(SHOWN, "")) > MAX_TYPED_CHARS
    sure = sign if len(full) <= 2 else len(paragraphs[0]) + 1  # an order and a request are two; more may be a page
    return OwnWords(text, said, sign, sure, PASTED_DOUBT if is_long else "", PASTED_DOUBT if is_odd else "")


def is_record(text: str, start: int = 0) -> bool:
    """Return True if the line at this place has the shape of a record, which nobody types.

    >>> is_record("JIRA-123 | Reporter: Eve"), is_record("// always use tabs"), is_record("I prefer tabs")
    (True, True, False)
    """
    return bool(_any_case("|".join(LINE_SHAPES.values())).match(text, start))


def _find_sign(said: str) -> int:
    """Return where words of somebody else may begin: at a record, a salutation, or behind an introduction."""
    line = sentence = clause = 0
    for end in _any_case(_CLAUSE_END).finditer(said):
        at, mark = end.start(), end[0]
        if clause == line and is_record(said, line):
            return line
        if clause and said[clause:at].strip() and _begins_letter(said, clause, at, is_line=clause == line):
            return clause
        start = ({"\n": line} | dict.fromkeys(":：-–—", clause)).get(mark, sentence)
        before, whole = (said[max(place, at - MAX_TYPED_CHARS) : at].strip(" *#") for place in (start, sentence))
        if before and _introduces(before, whole, mark) and not _any_case(_COURTESY_WORDS).fullmatch(said, end.end()):
            return at if mark == "\n" else end.end()
        clause = end.end()
        if mark == "\n":
            line = clause
        if mark not in ":：-–—":
            sentence = clause
    return len(said)


def _begins_letter(said: str, start: int, end: int, *, is_line: bool) -> bool:
    """Return True if a clause behind other words greets somebody: a mail that was pasted below a request."""
    greets = (
        rf"{_FORMAL_START}|{_GREETING_START}\b"
        if is_line
        else rf"(?:{_FORMAL_START}|{_GREETING_START})[^\n,.!?]{{0,30}}[,，!]"
    )
    return bool(_any_case(greets).match(said, start) or (is_line and re.match(_SALUTATION_LINE, said[start:end])))


def _introduces(clause: str, sentence: str, mark: str) -> bool:
    """Return True if a clause, by its words and the mark at its end, introduces a text of somebody else."""
    names_text = _names_text(clause)
    if mark == "\n":
        is_announced = clause.endswith((":", "：")) and not _any_case(_OWN_LABEL).fullmatch(sentence)
        is_shown = bool(_any_case(r"\b(?:look|see|guck|schau|regarde|mira)$").search(clause))
        return not re.match(_BULLET_MARK, clause) and (is_announced or is_shown or names_text)
    if mark in "?？":
        return names_text or bool(_any_case(_POINTS_AT_TEXT).search(clause))
    if names_text and (mark not in ".!。！" or _any_case(rf"\b{_TEXT_NOUNS}\b").search(clause)):
        return True
    if _any_case(_OWN_LABEL).fullmatch(sentence) or _any_case(_FIRST_PERSON).match(sentence):
        return False
    if _any_case(_ANNOUNCING_END).search(clause):
        return True
    is_label = mark in ":：" and re.fullmatch(_NAME_OR_TITLE, sentence)
    return mark not in ".!。！" and bool(is_label or _any_case(_POINTS_AT_TEXT).search(clause))


def _names_text(clause: str) -> bool:
    clause = _any_case(r"\b(?:i|we) (?:already |just )?(?:said|wrote|told|replied|answered)\b").sub("", clause)
    return bool(_any_case("|".join(_INTRODUCING_PHRASES)).search(clause))


def _is_letter_or_table(text: str, own: str) -> bool:
    """Return True if a message is a letter, fields or rows, or asks at its end about what stands before it."""
    if _any_case(_SIGNATURE_END, re.NOFLAG).search(text.rstrip()) or re.search(_QUOTED_ON, text):
        return True
    lines = [line for line in own.split("\n") if line.strip(f" \t\r{SHOWN}")]
    if not lines:
        return False
    if _any_case(f"{_FORMAL_START}|{_TO_A_PERSON}").match(f"{lines[0]}\n"):
        return True
    if own.rstrip().rpartition("\n")[0].strip():
        is_asked = re.search(r"[?？]\W*$", lines[-1]) and _any_case(_POINTS_AT_TEXT).search(lines[-1])
        is_about_text = _names_text(lines[-1]) and not re.match(_BULLET_MARK, lines[-1])
        if re.match(_SALUTATION_LINE, lines[0]) or is_asked or is_about_text:
            return True
    return any(_are_records(first, second) for first, second in pairwise(lines))


def _are_records(first: str, second: str) -> bool:
    """Return True if two lines are of one form: fields, or rows of a table.

    >>> _are_records("name: build", "owner: Eve"), _are_records("Remember: tabs", "Thanks: all")
    (True, False)
    """
    if all(
        re.match(_FIELD_LINE, line) and not _any_case(_OWN_LABEL).fullmatch(re.split("[:：=]", line)[0])
        for line in (first, second)
    ):
        return True
    commas = [len(re.findall(r"[,;](?=\S)", line)) for line in (first, second)]
    return commas[0] == commas[1] > 1


def _blot_lines(shape: str, said: str) -> str:
    return _any_case(rf"^(?:{shape})[^\n]*").sub(lambda line: SHOWN * len(line[0]), said)


@cache
def _any_case(pattern: str, flags: int = re.MULTILINE) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | flags)
