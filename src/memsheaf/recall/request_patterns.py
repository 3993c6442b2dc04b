"""Patterns of requests to ignore memory for one turn, and of requests not to store what is said, by language.

`recall/ignore.py` says how they are used. They see folded text: small letters, no accents, no hidden characters, one
space between words. A name in braces stands for the words of that name in the same language. Repetitions are bounded.
"""

from __future__ import annotations

ENGLISH = {
    "leads": r"please|pls|plz|kindly|just|also|now|ok|okay|hey|hi|well|actually|btw|instead|again|maybe|perhaps"
    r"|simply|sorry"
    r"|thanks|claude|chatgpt|gpt|gemini|copilot|assistant|and|but|so|then|or|yes|here|today|{turn}|(?:can|could"
    r"|would|will"
    r"|can't|won't) (?:you|u)|you (?:can|should|may|must|could|need to|have to|might want to|ought to)|(?:i|we|i'd"
    r"|i would) (?:want"
    r"|like|need|prefer|love|ask|wish)(?: (?:you|u))? to|i'm asking you to|let's|lets|let us|feel free to|be sure to"
    r"|make sure (?:to|you)|remember to|try to|completely|totally|temporarily",
    "turn": r"(?:just |only |at least )?(?:for (?:this|that|these|the next|the following|my next|just this"
    r"|only this|now|once"
    r"|a (?:moment|second|sec|minute)|today|the moment|the time being|the rest|what follows)\b|(?:in|on"
    r"|with) (?:this|your|the|my)"
    r"(?: next)? (?:answer|reply|response|turn|message|case|one|question|task)s?|this (?:time|once|turn|round|one)"
    r"|just once"
    r"|temporarily|momentarily|right now|when (?:you answer|answering))(?: (?:one|once|time|question|answer|task"
    r"|turn|request"
    r"|reply|message|problem|topic|exercise|prompt)\b)?",
    "remember": r"(?:remember|memori[sz]e|keep in mind|bear in mind|note that|don't forget|do not forget"
    r"|never forget)\b(?! (?:to|not)\b| (?:nothing|none)(?: (?:of|about|from))? (?:this|that|it|what)\b)",
    "but": "but ",
    "not": r"(?:(?:you )?(?:do not|don't|dont|never|not|need not|needn't)(?: (?:have|need) to)?"
    r"|(?:there(?:'s| is) )?no need (?:for you )?to)(?: (?:even|ever|please))?",
    "store": r"(?:store|save|keep|remember|record|log|note|retain|memori[sz]e|learn|persist|write)",
    "storing": r"(?:stor|sav|keep|remember|record|logg|not|retain|memori[sz]|learn|persist|writ)ing",
    "stored": r"(?:stored|saved|kept|remembered|recorded|logged|noted|retained|written down|in (?:your )?memory)\b",
    "add": r"(?:add|put|commit|enter|take|transfer)(?:t?ing)?",
    "talk": r"(?:conversation|chat|session|thread|discussion)",
    "this": r"(?:(?:any of )?(?:this|that|it|these)(?: (?:whole|entire|next|current))*(?: {talk})?"
    r"|(?:anything|what(?:ever)?|the next things?)(?: that)? i(?:'m|'ve|'ll)?(?: \w+){0,4}? (?:say"
    r"|said|saying|tell"
    r"|told|telling|write|wrote|mention|mentioned)|anything|what follows|the following"
    r"|(?:this|my|our|the)(?: (?:next|following|whole|entire))* (?:message|turn|part|{talk}))",
    "span": r"(?:from (?:now|here|this point) on|going forward|any ?more|any longer"
    r"|(?:in|of|from|during|for|throughout|until)(?: the (?:rest|remainder|end) of)? (?:this|our|the)"
    r"(?: (?:whole|entire|current))* {talk})",
    "storage": r"(?:(?:your|the|my|any|long-term) )*(?:memor|mind\b|notes\b|records?\b)",
    "kept": r"(?=$| (?:anywhere|please|pls|thanks|ok|down|at all|next|now|you|here|for (?:later|me|now)|because"
    r"|since|from (?:this"
    r"|my)|{span}|(?:in|to|into|on) {storage}))",
    "memory": r"(?:(?:your|ur|my|our|the|any|all|of|these|those|saved|stored|past|previous|earlier|old|existing|own"
    r"|long-term"
    r"|persistent|in|from) |(?:what is|what's|everything|anything) (?=in|from))*(?:memor(?:y|ies)(?: (?:tools?"
    r"|files?|folder"
    r"|notes|bank|store|system|feature|entries))?|(?:(?<=your )|(?<=my )|(?<=our ))(?:(?:session|project"
    r"|task) )?notes"
    r"|(?:session|project|task) notes|(?:facts|info|notes|things) about me|(?:what|whatever|everything|anything|all"
    r"|things|stuff)"
    r"(?: that)? (?:you|u|you've|youve)(?: [a-z]+){0,2}? (?:(?:know|knew|learned|learnt|saved|stored|noted|gathered"
    r"|have)"
    r"(?= about (?:me|us))|remember(?:ed)?\b|memori[sz]ed))(?: (?:of|about) (?:me|us)| so far| from before)?",
    "after": r"(?=$| (?:{turn}|for|in|on|when|while|before|as|so|if|please|pls|plz|thanks|thank|just|only|this"
    r"|right|now|today|tonight"
    r"|at all|completely|entirely|totally|fully|altogether|whatsoever|here|again|first|instead|too|also|once"
    r"|temporarily|what"
    r"|what's|who|who's|how|why|tell|give|write|explain|answer|let|i|i'm|i'd|it's|because|since|from|about me|aside"
    r"|out|off|into"
    r"|to one side|to the side|alone|you have|you keep|that you|and|but|or|then|ok)\b)",
    "forget": r"forget (?:about )?{memory}",
    "suppose": r"(?:as if|as though|like|pretend|imagine|assume|suppose)(?: that)?",
    "reports": r"^(?:you(?:'re)? (?!should|must|can|are not|have to)|he|she|it|they|we|i (?!want|do|need|would)|the"
    r"|an?|my|his|why|how|what"
    r"|whether|did|does|do you|is|are|was|were|has|have|never|do not|don't|if|when|which|there|agents|models|people"
    r"|users|should"
    r"|works|instead of|rather than|it's)\b",
    "hardware": r"\b(?:ram|heap|leaks?|benchmark\w*|profil\w+|gpu|cpu|dataset|alloc\w*|bytes?|[mg]i?b|disk"
    r"|pointers?|swap|buffers?"
    r"|cache|parse\w*|loading|algorithm|sort\w*|constant)\b",
}
ENGLISH_IGNORE = (
    r"(?:ignore|disregard|skip|bypass|disable|pause|suspend|leave|(?:set|put|leave) (?:aside|out)|block out|(?:turn"
    r"|switch) off)"
    r" {memory}{after}",
    r"(?:put|set|push|keep|turn|switch) {memory} (?:aside|out|off|to one side|to the side|turned off|switched off)\b",
    r"{not} (?!ignor|disregard|forget|skip|worry|delet|los|leak|wast|stor|sav|keep|remember|learn)[a-z]+(?: (?:on"
    r"|at|in|into|up"
    r"|to|by|through|into account|attention to|(?:or|and|nor) [a-z]+(?: to)?))* {memory}{after}",
    r"{not} (?:let|take|bring|base [a-z]+(?: [a-z]+)? on) {memory}\b",
    r"(?:avoid|refrain from|stop|no) (?!ignor)(?:[a-z]+ing|use)(?: (?:on|at|in|of|to))? {memory}{after}",
    r"(?:use )?no {memory}(?:$| please| {turn})|{memory} (?:off|disabled|turned off)(?:$| {turn})"
    r"|treat {memory} as\b",
    r"{memory} (?:(?:please|just) )?(?:ignore|disregard|forget|{not} use) (?:it|that|them)\b",
    r"fresh context$|(?:use|take) a fresh context {turn}|(?:answer|reply|respond) (?:with|in|from) a fresh context",
)
ENGLISH_WITHIN = (
    r"without (?:[a-z]+ing (?:(?:on|at|in|to|into|of) )?|use of |the help of |taking )?{memory}{after}"
    r"|ignoring {memory}{after}",
    r"with {memory} (?:off|turned off|switched off|disabled|set aside)|(?:disregard|leav|sett"
    r"|putt)ing (?:aside )?{memory}",
    r"{suppose} you(?:'d|'ve)? (?:have|had|lost|never had|didn't have|did not have|don't have|do not have)"
    r"(?: (?:no|zero|any|a|access to))* {memory}|{suppose} {memory} (?:was|were|is|are) (?:empty|off|blank|gone"
    r"|wiped|turned|disabled)",
    r"{suppose} you(?:'ve)? (?:didn't|did not|don't|do not|couldn't|can't|cannot|forgot|remember|remembered|know"
    r"|knew|have forgotten"
    r"|had forgotten)(?: (?:remember|know))? (?:nothing|anything|me|a thing|any|everything|us)\b",
    r"(?:do not|don't|dont) want (?:you to [a-z]+(?: (?:on|at|in|to))? )?{memory}|you (?:didn't|did not|not"
    r"|don't) [a-z]+ {memory}",
    r"you (?:shouldn't|should not|mustn't|must not|cannot|can't|are not to) (?!ignor)[a-z]+(?: (?:on"
    r"|at))? {memory}|doesn't [a-z]+ {memory}",
)
ENGLISH_PRIVATE = (
    r"{not} {store}(?: a record of| down)? {this}{kept}|(?:do not|don't|dont|never) (?:remember|memori[sz]e)$",
    r"(?:{not}|avoid|refrain from|stop|without) {add} {this} (?:in|to|into|on) {storage}",
    r"(?:avoid|refrain from|stop|no|without) {storing} (?:{this}{kept}|any|things)|stop (?:remember|memori[sz])ing$",
    r"without {storing} {this}|remember (?:nothing|none)(?: (?:of|about|from))? {this}{kept}",
    r"(?:{this}(?:'s| is| stays) (?:strictly |all )?)?off the record(?: {span})?$|keep {this} off the record",
    r"(?:keep|leave) {this} (?:just |strictly )?(?:between us|to yourself|out of {storage}|confidential)",
    r"(?:{this}(?:'s| is| stays) )?(?:just |strictly )?between (?:us|ourselves)$"
    r"|(?:just |strictly )?between you and me\b",
    r"(?:(?:go|stay|use|switch to|have|this is|it's) )?(?:an? )?(?:incognito|(?:private|temporary|no.memory)"
    r" (?:mode|{talk}))(?: mode)?(?: (?:please|on|now|{turn}|{span}))*$",
    r"{this}(?:'s| is| stays) (?:strictly |very )?(?:private|confidential|secret|personal)$",
    r"(?:strictly |highly |very )?confidential$|strictly (?:private|personal)$|#no.?memory$"
    r"|treat {this} as (?:private|confidential|secret|ephemeral|temporary|off the record)",
    r"(?:{this}(?:'s| is))?(?:^| )?not for {storage}\w*$|{this} isn't for {storage}\w*$",
    r"forget (?:that )?(?:what )?i (?:just |ever )?(?:said|told|wrote|mentioned)\b",
    r"(?:scratch|strike) {this} from {storage}|(?:erase|delete|forget) {this} (?:again )?(?:after|once|when)"
    r" (?:you(?:'ve| have)? (?:answer|repl|read)|(?:answer|reply|read)ing|(?:your|the|this) (?:answer|reply|{talk}))",
    r"(?:i )?(?:do not|don't|dont) want {this} (?:to be )?{stored}",
    r"(?:i'd |i would )?(?:rather|prefer)(?: it if| that)? you (?:didn't|did not|not|don't) {store} {this}",
    r"(?:nothing|none) .{0,40}?(?:should|may|must|is to|shall) be {stored}|{this} (?:should|must|may|is)(?: not"
    r"|n't)(?: to)? be {stored}",
)

GERMAN = {
    "leads": r"bitte|mal|doch|jetzt|nun|also|und|aber|oder|ok|okay|hey|hallo|claude|(?:kannst|konntest|wurdest) du"
    r"|(?:konnen|konnten|wurden)"
    r" sie|du (?:sollst|kannst|darfst|musst)|ich (?:mochte|will|wunsche mir)(?: dass du)?|{turn}|heute|hierbei"
    r"|dabei|danke|einfach",
    "turn": r"(?:diesmal|dieses mal|ausnahmsweise|fur (?:diese[sn]?|die|das|den|einen"
    r"|jetzt)(?: nachste[ns]?)?(?: \w+)?|in dieser \w+|bei dieser \w+)",
    "remember": r"(?:merk\w* (?:dir|sich)|denk\w* dr?an|vergiss nicht|beachte dass)\b(?!(?: (?:das|dies|es"
    r"|bitte))* nicht)",
    "but": "aber ",
    "span": r"ab (?:jetzt|sofort)|von (?:jetzt|nun) an|kunftig"
    r"|(?:in|aus|von) (?:diese[rsm]|unsere[rsm]) (?:unterhaltung|konversation|chat|gesprach|sitzung)",
    "fill": r"(?:(?:mal|kurz|bitte|jetzt|doch|hier|sie|{turn}|dafur|einfach|dabei|dich|sich|du) )*",
    "memory": r"(?:(?:deine?[mnrs]?|ihre?[mnrs]?|meine?[mnrs]?|de[mnr]|das|die|alle[ns]?|gespeicherten?|bisherigen?"
    r"|fruheren?"
    r"|irgendwelche|auf|in|an|aus|zugriff|ruckgriff|rucksicht) )*(?:gedachtnis|gedaechtnis|erinnerung(?:en)?\b"
    r"|memor(?:y|ies)|wo?(?:as|ran) du (?:\w+ )?"
    r"(?:(?:uber|ueber|von) (?:mich|mir)|dir|dich)(?: (?:weisst|gemerkt|gespeichert|kennst|hast|erinnerst))*)",
    "forget": r"vergiss {fill}{memory}",
    "use": r"(?:(?:be)?nutz|verwend|gebrauch|greif|verlass|stutz|schau|lies|beruck?sichtig|zieh|konsultier|beacht"
    r"|denk|nimm|nehm)(?:en?|t)?",
    "reports": r"^(?:er|es|wir|ich (?!mochte|will|hatte)|du|warum|wie|wieso|was|ob|hast|hat|ist|sind|wenn|falls|man"
    r"|die|der|das|nie|niemals|gibt|kann man"
    r"|schreib|implement\w+|hor auf)\b|antworte nicht|aufhoren",
    "hardware": r"\b(?:leaks?|outlook|ram|termin)\b",
}
GERMAN_IGNORE = (
    r"(?:ignorier|uberspring|blend|lass|schalt|stell|deaktivier|pausier|verzicht)(?:en?"
    r"|t)? {fill}{memory}(?!.* (?:nicht|ein)\b)",
    r"{use} {fill}{memory}(?: \w+){0,4}? nicht\b(?! als)|{use} {fill}(?:nichts? (?:von )?|kein\w* ){memory}",
    r"{fill}{memory} (?:{turn} |{fill}|nicht )*(?:ignorieren|nicht \w+|aus|ausschalten|ausblenden|beiseite"
    r"|weglassen)$|nicht {memory}",
    r"{fill}(?:ohne|kein\w*) {memory}(?:$| bitte| {turn}| \w+en$)|{memory} .{0,40}nicht (?:be)?nutzt",
)
GERMAN_WITHIN = (
    r"ohne (?:dass du )?{memory}(?:$| bitte| zu| \w+$| (?:be)?nutz)|unabhangig von {memory}",
    r"(?:als|du) (?:ob|hattest|wusstest|ware)(?: du)?(?: \w+){0,2}? (?:kein\w* {memory}|nichts (?:uber|von)"
    r"|{memory})|{fill}{memory} dabei|dabei {memory}",
)
GERMAN_PRIVATE = (
    r"(?:(?:das|dies|es|das alles|hier|bitte|davon|hiervon|musst|brauchst|sollst|darfst|du|dir|{span}) )*"
    r"nichts?(?: (?:davon|hiervon|hier|mehr|{span}))* (?:zu )?(?:ab)?(?:speichern|merken|notieren|aufschreiben"
    r"|festhalten|behalten)$",
    r"(?:speicher|merk|notier|schreib|behalt|halt|erinner)\w* (?:(?:sie|dir|sich|dich|das|dies|es|davon|hiervon"
    r"|bitte|jetzt|auf|fest|an|daran) )*"
    r"nichts?\b(?! (?:als|in de[rm]|in die|auf|im (?!gedach)))",
    r"(?:(?:das|dies) )?(?:bleibt |ist )?(?:ganz |streng )?(?:unter uns|vertraulich|privat)(?: gesagt)?$",
    r"(?:inkognito|privat)(?: ?modus)?(?: (?:bitte|an))*$|temporarer chat$|vergiss (?:bitte )?(?:alles )?was ich\b",
)

FRENCH = {
    "leads": r"s'il (?:te|vous) plait|stp|svp|merci(?= |$)(?! de| d')|mais|et|alors|ok|(?:peux|pourrais)-tu"
    r"|pouvez-vous|est-ce que tu peux|tu peux|bonjour"
    r"|(?:je (?:veux|voudrais|prefere)|j'aimerais) que tu|veuillez|il faut|{turn}|claude|juste|maintenant|donc",
    "turn": r"(?:pour (?:cette|ce|une|l'instant)(?: \w+)?|cette fois(?:-ci)?|ici)",
    "remember": r"(?:souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|retiens|retenez|memorise|n'oublie pas"
    r"|notez?)\b(?! pas)",
    "but": "mais ",
    "memory": r"(?:(?:ta|ma|votre|la|tes|vos|les|tous|toutes|tout|mes|de|a|en|sur|dans"
    r"|completement) )*(?:memoires?\b|souvenirs?\b|ce que (?:tu|vous)"
    r" (?:\w+ ){0,2}?(?:sais|savez|retenu|memorise|souviens|rappelles)|ce dont (?:tu te souviens"
    r"|vous vous souvenez))(?: (?:de|sur) moi)?",
    "forget": r"oubli(?:e[zr]?|ons) {memory}",
    "reports": r"^(?:il (?!faut)|elle|on|nous|je (?!ne veux|veux)|tu (?!ne dois|peux)|vous|pourquoi|comment|peut-on"
    r"|qu|que|quand|si|est|as|a|le|les|la|un|jamais"
    r"|ecris|ne reponds pas)\b",
    "hardware": r"\b(?:ram|vive|partagee|cache|gpu|cpu|processeur|serveur|carte|boucle|alloue|supplementaire"
    r"|vitesse|perds)\b",
}
FRENCH_IGNORE = (
    r"(?:ignor(?:e[zr]?|es)|laisse[zr]?|desactive[zr]?|mets|mettez|(?:fais"
    r"|faites) abstraction) (?:de cote )?{memory}(?! pas)",
    r"(?:n'|ne )?(?:(?:te|vous|t'|y|dois|devez) ?)*(?!ignor|ne\b|pas\b|oubli|garde"
    r"|enregistr)[a-z]+(?: pas)?(?: [a-z]+)? ?(?<=pas|une|cun|ien|lus) ?(?:(?:en )?compte |recours )?{memory}",
    r"pas {memory}|(?:evite[zr]?|essaie[zr]?|merci) (?:de ne pas |d')\w+ {memory}"
    r"|oublie[zr]? {memory} un (?:instant|moment)|{memory} (?:desactivee?|de cote)$",
)
FRENCH_WITHIN = (
    r"sans (?:[\w']+ ){0,3}?{memory}|en (?:ignorant|oubliant|laissant|faisant abstraction de) {memory}",
    r"comme si (?:tu|vous) (?:n'\w+ (?:pas|aucun\w*|plus) (?:de )?{memory}|ne (?:savais|saviez|te"
    r"|vous) .{0,20}(?:rien|pas|moi))",
    r"(?:je ne veux pas que tu|ne dois pas) (?!ignor)\w+ {memory}",
)
FRENCH_PRIVATE = (
    r"(?:n'|ne )(?:(?:le|la|les|l') ?)?(?:garde|retien|enregistr|memoris|note|sauvegard|conserv|stock"
    r"|souvien)\w*(?:-toi)? (?:pas|rien)"
    r"(?:$| (?:ca|cela|ceci|en memoire|de ca|de cela|(?:de|dans) cette|desormais|ce que je"
    r"|ce que j'|dans ta memoire|s'il|stp))",
    r"(?:(?:ca|cela) )?(?:reste )?entre nous$|(?:en )?(?:mode )?(?:incognito|prive"
    r"|chat temporaire)(?: (?:s'il (?:te|vous) plait"
    r"|stp|svp))?$",
    r"c'est (?:prive|confidentiel|personnel)$|oublie[zr]? ce que (?:je|j')|(?:ca"
    r"|cela) ne doit pas etre (?:enregistre|garde|memorise)",
)

SPANISH = {
    "leads": r"por favor|porfa|pero|y|e|puedes|podrias|te importaria|(?:quiero|prefiero|necesito|te pido"
    r"|me gustaria) que|{turn}|ahora|solo|simplemente|oye"
    r"|hola|claude|gracias|bueno|vale",
    "turn": r"(?:(?:por )?esta vez|para est[aeo](?: \w+)?|en est[ae] \w+|por un momento|por ahora|aqui)",
    "remember": r"(?:recuerda|recuerde|acuerdate|ten en cuenta|memoriza|apunta|anota|no olvides)\b",
    "but": "pero ",
    "memory": r"(?:(?:tu|mi|su|la|las|tus|los|todas?|todos|todo|ninguna?|cualquier|sus|de|en|a|con|nada"
    r"|completamente|por completo|uso) )*(?:memorias?\b|recuerdos?\b"
    r"|lo que (?:ya )?(?:sabes|sabe|recuerdas|recuerde|guardaste|has guardado|tienes guardado))(?: (?:de|sobre"
    r"|acerca de) mi)?",
    "forget": r"olvid(?:a|e|ate|ese) {memory}",
    "reports": r"^(?:el|ella|yo|tu|ellos|nosotros|por que|como (?!si)|que|cuando|si|es|has|ha|la|los|un|nunca"
    r"|no respondas|respondiste|contestaste|estas|se|escribe un)\b",
    "hardware": r"\b(?:ram|compartida|cache|gpu|cpu|interna|adicional|lista|disco|velocidad|pierdas)\b",
}
SPANISH_IGNORE = (
    r"(?:ignor(?:[ae]s?|ar|aras)|omite|deja|desactiva|apaga|prescinde|haz caso omiso"
    r"|evita \w+) (?:de lado )?{memory}",
    r"no (?:(?:te|se|me|quiero que|deberias) )*(?!ignor|olvid|borr|guard)\w+ (?:en cuenta |en )?{memory}(?!.*\?)"
    r"|sin {memory}$|nada de {memory}$",
)
SPANISH_WITHIN = (
    r"sin (?:\w+ ){0,3}?{memory}|(?:ignorando|olvidando|dejando (?:de lado )?) ?{memory}",
    r"(?:como si|finge que|imagina que) no (?:tuvieras|tuviese\w*|tienes|sabes|recordaras|supieras|hubiera"
    r"|me)(?: \w+){0,2}?(?: ?{memory}| nada| conocieras)",
)
SPANISH_PRIVATE = (
    r"no (?:(?:lo|la|me|te) )?(?:guard|record|recuerd|apunt|anot|memori|almacen|registr|conserv)\w*(?:$| (?:esto"
    r"|eso|nada|lo que|este mensaje)\b"
    r"(?!(?: \w+){0,2} en (?!(?:tu |la )?memoria)))",
    r"(?:(?:esto|eso) )?(?:queda |que quede )?entre (?:nosotros|tu y yo)$|(?:en )?(?:modo )?(?:incognito"
    r"|privado|chat temporal)(?: por favor)?$",
    r"(?:esto|eso) es (?:privado|confidencial|personal)$|olvida lo que (?:acabo|te|he|dije)|extraoficialmente\b",
)

CHINESE = {
    "remember": "[请請]?(?:一定要|帮我)?(?:记住|記住|记得|記得|记下|牢记)",
    "memory": r"[^,。]{0,8}?(?:(?:记忆|記憶)(?![里中体體化卡这])|记[得住下]的|关于我|關於我|了解|memory)",
    "reports": r"(?:不要|别|別|不能|不会|勿)(?:再|去|在回答时)?(?:忽略|无视|無視|忘)|(?<!忽略记忆)(?<!回答)吗"
    r"|为什么|為什麼|怎么|如何|如果|多少|什么时候|是不是|是否|用户|说过|他"
    r"|她|(?<!记忆)功能|记忆功能怎|函数|实现|模型|你(?:又|没有使用|会|让)|我让|时返回|意思",
}
CHINESE_IGNORE = (
    r"(?:忽略|无视|無視|抛开|拋開|忘掉|忘记|撇开|跳过|关闭|关掉|關閉|禁用|暂停|不考虑|不看|不用|放下|屏蔽"
    r"|别管){memory}",
    r"(?:不要|别|別|勿|不|不想你?|不希望你)(?:再|去)?(?:使用|利用|用|参考|參考|调用|依赖|读取|查看|看|考虑|受|动用"
    r"|查|带[入上]|翻|提及|根据|结合|管){memory}",
    r"(?:当作|当|假装|就当|假设|好像|如同|装作)(?:你)?(?:没有?|不|什么都不)[^,。]{0,4}(?:{memory}|记得|认识|知道)",
    r"(?:不带|不靠|不凭|没有|脱离|无){memory}(?:地|的情况|来)?(?:下)?回答|(?:记忆|記憶)(?:先)?(?:关|放一边|不要用"
    r"|别用)",
)
CHINESE_PRIVATE = (
    r"(?:不要|别|別|勿|不用|不必|不许)(?:把?(?:这个|这些|这|它|以下内容|我说的话?|刚才的话?))?(?:给)?(?:记录|记住"
    r"|记下|記住|記錄|保存|存储|存|写进|记)"
    r"(?:下来|下|住|到|在|进)?(?:这个|这些|这|它|我说的|任何)?(?:你的)?(?:记忆|記憶)?[里中]?(?:$|内容|东西|话|吧|哦)",
    r"^(?:私下|悄悄|偷偷)(?:说|告诉)|保密|不要外传|别外传|你知我知|我们之间|^这?些?(?:是|属于)?私密|(?:无痕|隐身"
    r"|隐私)模式|忘[了掉记]我(?:刚才|刚刚|刚)?说",
)

JAPANESE = {
    "remember": "覚えて(?:おいて|ください|ね)|記憶して|メモして",
    "memory": r"(?:記憶|メモリー?)(?:機能)?(?:は|を|も|の内容を|に)?[^。、,]{0,5}?|(?:覚えて|知って)い?る(?:こと"
    r"|情報|内容)(?:は|を|も)?[^。、,]{0,5}?",
    "reports": r"無視(?:しない|する|され|してい(?!い)|してしま|しても|しては)|なぜ|なんて|どう(?!か)|どこ|方法"
    r"|(?<!え)(?<!くれ)ますか|ですか|のか|ユーザー|関数|実装|と言|と書|(?<!こ)とは|場合|共有|gpu|物理|ヒープ"
    r"|追加の|(?<!な)た(?:よ|ね|の|でし|こと)|なかった|リーク|配列",
}
JAPANESE_IGNORE = (
    r"{memory}(?:無視|忘れて|オフ|切って|無効|除いて|抜き|なしで|脇に置)",
    r"{memory}(?:使わ|使用し|参照し?|見|考慮し?|頼ら|読ま|利用し?|参考にし|気にし|基づか|依存し|とらわれ"
    r"|影響され)(?:ず|せず|ない|なくて)",
    r"(?:記憶|メモリ)(?:が|も)?(?:ない|無い|なかった)(?:もの|つもり|と思|と仮定|状態|かのよう|ふり)",
    r"(?:何も|私のことを?|私について(?:何も)?)(?:覚えていない|知らない|覚えてない)(?:つもり|もの|体|と思|ふり|前提"
    r"|かのよう)",
)
JAPANESE_PRIVATE = (
    r"(?:これ|それ|この話|今の(?:話|こと)|以下|このメッセージ|(?:今から|これから)言うこと|記憶"
    r"|メモリ)[はをにも][^。、,]{0,6}?"
    r"(?:覚え|保存し|記録し|メモし|記憶し|残さ|残し)ないで",
    r"^(?:オフレコ|ここだけの話|内緒|秘密(?=で|だ|に|$))|(?:シークレット|プライベート|匿名)モード|言ったことは?忘れて",
)

OTHER_PRIVATE: dict[str, tuple[dict[str, str], str]] = {
    "Russian": (
        {"leads": "пожалуиста|и|но|а", "remember": "запомни(?:те)?|помни"},
        r"не (?:надо |нужно )?(?:запом|сохран|запис)\w*(?:$| (?:это\w*|ничего|мои|то что|что я)\b(?! в (?!памят)))"
        r"|(?:это )?(?:только )?(?:между нами|не для записи|конфиденциально)$",
    ),
    "Italian": (
        {"leads": "per favore|ti prego|e|ma", "remember": "ricorda(?:ti)?|memorizza"},
        r"non (?:lo |la |te lo )?(?:salv|ricord|memorizz|registr|annot|conserv)\w*"
        r"(?:$| (?:quest[oa]|cio|nulla|niente|quello che)\b(?! (?:in|nel|nella|su) (?!memoria)))"
        r"|(?:questo )?(?:resti |resta )?(?:tra noi|confidenziale|(?:modalita )?in incognito|chat temporanea)$",
    ),
    "Portuguese": (
        {"leads": "por favor|e|mas", "remember": "lembre|lembra|memorize"},
        r"nao (?:se )?(?:guard|salv|lembr|memori|grav|anot|regist)\w*"
        r"(?:$| (?:d?isso|d?isto|nada|o que)\b(?! (?:em|no|na) (?!(?:sua )?memoria)))"
        r"|(?:isto |isso )?(?:fica )?(?:entre nos|confidencial|modo anonimo|chat temporario)$",
    ),
    "Polish": (
        {"leads": "prosze|i|ale", "remember": "zapamietaj|pamietaj"},
        r"nie (?:zapis|zapami|zachow)\w*(?:$| (?:tego|nic|niczego|tej)\b)"
        r"|(?:to )?(?:zostaje )?(?:miedzy nami|poufne|tryb incognito)$",
    ),
    "Dutch": (
        {"leads": "alsjeblieft|graag|en|maar", "remember": "onthoud"},
        r"(?:(?:dit|dat) )?niet (?:onthouden|opslaan|bewaren)$|(?:onthoud|bewaar) (?:dit|dat) niet"
        r"|sla (?:dit|dat|niets) (?:niet )?op|(?:dit blijft )?onder ons$",
    ),
    "Korean": (
        {"remember": "기억해|저장해"},
        r"(?:저장|기억|기록|메모)하지는?(?:마|말)[^ ]{0,4}$|^(?:비밀|우리끼리)",
    ),
}
"""The plainest wordings of requests not to store something, in languages without the other patterns."""

PATTERNS = {
    **{language: (words, (), (), (private,)) for language, (words, private) in OTHER_PRIVATE.items()},
    "English": (ENGLISH, ENGLISH_IGNORE, ENGLISH_WITHIN, ENGLISH_PRIVATE),
    "German": (GERMAN, GERMAN_IGNORE, GERMAN_WITHIN, GERMAN_PRIVATE),
    "French": (FRENCH, FRENCH_IGNORE, FRENCH_WITHIN, FRENCH_PRIVATE),
    "Spanish": (SPANISH, SPANISH_IGNORE, SPANISH_WITHIN, SPANISH_PRIVATE),
    "Chinese": (CHINESE, (), CHINESE_IGNORE, CHINESE_PRIVATE),
    "Japanese": (JAPANESE, (), JAPANESE_IGNORE, JAPANESE_PRIVATE),
}

STEMS = {
    "ignore": {
        "English": (
            "memor",
            "remember",
            "about me",
            "fresh context",
            "your notes",
            "my notes",
            "our notes",
            " notes",
        ),
        "German": ("gedachtnis", "gedaechtnis", "erinner", "gemerkt", "uber mich", "ueber mich", "memor"),
        "French": ("memoire", "souven", "souvien", "sur moi", "de moi"),
        "Spanish": ("memori", "recuerd", "recorda", "sobre mi", "acerca de mi", "de mi"),
        "Chinese": ("记忆", "記憶", "记住", "記住", "记得", "記得", "记下", "了解", "关于我", "關於我", "memory"),
        "Japanese": ("記憶", "メモリ", "覚えて", "知って"),
    },
    "private": {
        "Russian": ("не ", "между нами", "конфиденц"),
        "Italian": ("non ", "tra noi", "confidenz", "incognito", "temporanea"),
        "Portuguese": ("nao ", "entre nos", "confidenc", "anonimo", "temporario"),
        "Polish": ("nie ", "miedzy nami", "poufne", "incognito"),
        "Dutch": ("niet", "onder ons"),
        "Korean": ("하지", "비밀", "우리끼리"),
        "English": (
            *(
                "temporary",
                "treat",
                "add",
                "put",
                "commit",
                "eras",
                "delet",
                "strik",
                "scratch",
                "record",
                "between",
                "keep",
                "stor",
                "save",
                "saving",
                "remember",
                "memor",
                "log",
                "note",
                "noting",
                "learn",
            ),
            *("writ", "forget", "confid", "privat", "incognito", "retain", "secret", "personal", "persist"),
        ),
        "German": ("nicht", "unter uns", "vertraulich", "privat", "inkognito", "temporar", "vergiss"),
        "French": ("ne ", "n'", "entre nous", "incognito", "prive", "confidentiel", "personnel", "oubli"),
        "Spanish": ("no ", "entre ", "incognito", "privado", "confidencial", "personal", "olvida", "extraof"),
        "Chinese": ("记", "記", "存", "私", "悄", "偷", "保密", "外传", "你知我知", "之间", "模式", "忘"),
        "Japanese": ("ないで", "オフレコ", "ここだけ", "内緒", "秘密", "モード", "忘れて"),
    },
}
"""No request does without one of these, so that an ordinary message costs a few substring tests."""

REST_OF_CONVERSATION = (
    r"\b(?:conversation|chat|session|thread|discussion)\b|from (?:now|here|this point) on|going forward|any ?more\b"
    r"|any longer|stop \w+ing|incognito|(?:private|temporary|no.memory) mode"
    r"|\b(?:anything|nothing|whatever)(?: that)? i(?:'ll| will)? (?:say|tell|write|mention)\b"
    r"(?!.*(?:message|turn|next))"
    r"|unterhaltung|konversation|gesprach|sitzung|ab (?:jetzt|sofort)|von (?:jetzt|nun) an|kunftig|inkognito"
    r"|nichts mehr|privat ?modus|desormais|dorenavant|a partir de maintenant|(?:mode|modo) priv|conversacion|charla"
    r"|sesion|a partir de ahora|en adelante|(?:[这這本此]次?个?|整个)(?:对话|對話|聊天|会话|會話)|从现在|今后|以后"
    r"|(?:无痕|隐身|隐私)模式|この(?:会話|チャット|セッション)|今後|以降|(?:シークレット|プライベート|匿名)モード"
    r"|разговор|бесед|\bчат|с этого момента|больше|conversazione|d'ora in poi|conversa\b|em diante|anonimo"
    r"|rozmow|od teraz|gesprek|vanaf nu|대화|채팅|앞으로|지금부터"
)
NEXT_MESSAGE = (
    r"\bnext\b|\bfollow(?:s|ing)\b|about to|going to (?:say|tell)|i'll (?:say|tell)|nachste|\bgleich\b|folgende"
    r"|prochain|ensuite|siguiente|proxim|a continuacion|接下来|下一|下面|以下|次の|(?:今|これ)から言|следующ|prossim"
    r"|nastepn|volgende|다음"
)
"""How far a request not to store something reaches, in the words of any language; else for its own message."""
