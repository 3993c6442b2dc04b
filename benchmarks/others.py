"""840 memories that answer none of the questions of our coding set: what a larger store holds besides.

Thirty subjects in 28 projects, with details that a fixed seed draws. They speak of programming, as the set does, but
of projects that it does not know. A few questions are so general that one of these would be an answer, too; that
counts as a miss.
"""

from __future__ import annotations

from functools import cache
from random import Random

from memsheaf.memory import Memory, parse

PROJECTS = (
    "almanac", "bellwether", "cinderpath", "dovecote", "eiderdown", "farthing", "gannet", "hollyhock", "ironwood",
    "juniper", "kittiwake", "larkspur", "millrace", "nightjar", "oxbow", "pennywort", "quarterdeck", "rookery",
    "saffron", "tidemark", "umbrage", "vellum", "whinchat", "yarrow", "ashlar", "brambling", "cornice", "dunnock",
)  # fmt: skip

SUBJECTS = (
    ("project", "{p} pages with cursors", "Lists of {things} in {p} continue from an opaque token",
     "An offset skipped {things} when rows were inserted meanwhile. The token holds the last key and {n} bytes."),
    ("project", "Search of {p} runs on {tool}", "Full text over {things}, rebuilt at night",
     "The analyser folds accents and splits at hyphens. A rebuild takes {n} minutes; {person} watches it."),
    ("project", "{p} sends mail through {tool}", "Newsletters and receipts share one queue",
     "Bounces come back by webhook. More than {n} a minute are throttled by the relay."),
    ("project", "Uploads to {p} are scanned", "Attachments wait in {place} until {tool} has seen them",
     "Files over {n} MB are refused at the edge. A signed link lasts an hour."),
    ("project", "{p} draws maps with {tool}", "Tiles, attribution and zoom levels for {things}",
     "Below zoom {n} clusters are shown. The style is in {place}."),
    ("project", "Queue of {p} is {tool}", "Background work on {things}, with dead letters",
     "A message is tried {n} times, then parked. {person} empties the parking place on Thursdays."),
    ("project", "{p} translates with message catalogues", "Plural forms and who delivers the strings",
     "Keys are sentences. {person} exports them to {place} each sprint; {n} locales are live."),
    ("project", "Undo in {p} keeps commands", "The editor for {things} records inverse operations",
     "The last {n} steps are kept. Grouping ends after a pause or a change of focus."),
    ("project", "{p} compresses with zstd", "Level and dictionary for archives of {things}",
     "Level {n} with a trained dictionary in {place}; brotli was slower to open."),
    ("project", "Webhooks of {p} are signed", "Partners verify a header before they trust {things}",
     "HMAC over body and timestamp, tolerance {n} seconds. Two secrets are valid while one is exchanged."),
    ("project", "{p} imports spreadsheets", "Columns are matched by heading, and rejects go to a sheet",
     "The first {n} rows are shown as a preview. {person} keeps odd samples in {place}."),
    ("project", "Feature store of {p}", "Where {things} are computed for the recommender",
     "{tool} fills it every {n} minutes. Training reads as of a point in time."),
    ("project", "{p} renders PDF in a sidecar", "Fonts, margins and page breaks for {things}",
     "A headless browser with {n} workers. Fonts lie in {place}, because the image has none."),
    ("project", "Barcode reader of {p}", "Which symbologies the camera app decodes",
     "EAN, Code 128 and Data Matrix; the frame is cropped to {n} pixels first. {tool} was too slow on old phones."),
    ("project", "{p} shards by hash", "How {things} are spread, and how a shard is split",
     "{n} virtual shards on four machines. {person} wrote the tool in {place}."),
    ("feedback", "Enums over booleans in {p}", "Functions on {things} take a named mode",
     "A call with three flags could not be read. More than {n} modes ask for two functions."),
    ("feedback", "Errors of {p} are values", "Parsers of {things} return a result and never raise",
     "The caller matches on it. {person} asks for this in every review of {place}."),
    ("feedback", "Small interfaces in {p}", "A port to {things} has at most a few methods",
     "What a test needs to fake is then obvious. The largest has {n}; it is to be cut."),
    ("feedback", "Immutable records in {p}", "Copies instead of setters for {things}",
     "A listener saw half a change once. {tool} generates the builders under {place}."),
    ("feedback", "Feature folders in {p}", "Code for {things} lies together, not by layer",
     "View, state and test side by side in {place}. Shared parts move up only at the third use."),
    ("feedback", "Table tests in {p}", "Cases for {things} are rows, with a sentence each",
     "One loop, {n} rows, a name in every row. Failures print the row."),
    ("feedback", "Early returns in {p}", "Guards at the top, the usual path unindented",
     "More than {n} levels are flagged by the linter whose settings are in {place}."),
    ("feedback", "{p} avoids reflection", "Serialisers of {things} are generated at build time",
     "Start-up fell by {n} ms. The generator is {tool}; {person} maintains it."),
    ("reference", "Wiki of {p}", "Meeting notes and the map of modules for {things}",
     "Space {p} on the wiki; {person} can give access. The page on {place} is the most complete."),
    ("reference", "Sample archive of {p}", "Anonymous {things} of every year, for trying importers",
     "{n} files, listed in {place}. New ones are announced by {person}."),
    ("reference", "Style sheet of {p}'s colours", "Palette, contrast values and icons",
     "The source is a vector drawing in {place}; {tool} exports it in {n} sizes."),
    ("reference", "Vendor contact for {tool} in {p}", "Support contract and how to open a case",
     "{person} holds the account. Cases are answered within {n} hours; the number is in {place}."),
    ("reference", "Talk about {p}'s {things}", "Recording and slides of the meetup",
     "{person} spoke for {n} minutes on why {tool} was chosen. The slides are in {place}."),
    ("reference", "Postman collection of {p}", "Requests for {things}, with example answers",
     "{n} requests in {place}; variables for each tenant come from {person}."),
    ("user", "Mentored {person} on {p}", "Knows the code for {things} from the first day on",
     "Wrote the first version in {tool} and {n} weeks. Explanations of {place} can be short."),
)  # fmt: skip

_DRAWN = {
    "tool": (
        "RabbitMQ", "Meilisearch", "ImageMagick", "OpenLayers", "Kafka", "Elasticsearch", "NATS", "Airbyte", "Feast",
        "Protobuf", "Solr", "ClamAV", "MapLibre", "Celery", "Postfix", "ZXing", "Sidekiq", "FlatBuffers", "Typesense",
        "Inkscape", "Leaflet", "Pulsar",
    ),
    "things": (
        "recipes", "bird sightings", "tram departures", "library loans", "sheet music", "wind turbines",
        "exam papers", "ski passes", "crossword grids", "museum objects", "bee colonies", "train tickets",
        "podcast episodes", "chess games", "river levels", "theatre costumes", "parking permits", "seed packets",
        "court filings", "lift inspections", "choir rehearsals", "ferry cargo", "patent drawings",
        "football fixtures",
    ),
    "person": (
        "Ingrid", "Tomasz", "Leila", "Bram", "Oksana", "Rafael", "Yuki", "Noor", "Caspar", "Dagny", "Emeka", "Fiona",
        "Goran", "Hanneke", "Ilse", "Kofi",
    ),
    "place": (
        "internal/parse", "lib/core/io", "packages/shared", "src/adapters", "assets/raw", "ops/notes", "tools/gen",
        "app/models", "vendor/local", "crates/base", "share/samples", "pkg/store", "scripts/one-off", "web/editor",
    ),
}  # fmt: skip


@cache
def others() -> tuple[Memory, ...]:
    """All of them, the same on every run."""
    return tuple(_memory(project, number, subject) for project in PROJECTS for number, subject in enumerate(SUBJECTS))


def _memory(project: str, number: int, subject: tuple[str, str, str, str]) -> Memory:
    random = Random(f"{project} {number}")
    drawn = {slot: random.choice(choices) for slot, choices in _DRAWN.items()}
    kind, *texts = subject
    name, description, body = (text.format(p=project, n=random.randrange(3, 90), **drawn) for text in texts)
    day = f"2026-{random.randrange(1, 10):02}-{random.randrange(1, 28):02}"
    header = f'---\nname: "{name}"\ndescription: "{description}"\ntype: {kind}\nupdated: {day}\n---\n'
    return parse(f"{kind}_{project}-{number}.md", f"{header}{body}\n".encode())
