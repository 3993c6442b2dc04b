from __future__ import annotations

import time

from memsheaf.guard.citations import defining, holding


def test_a_definition_is_told_from_a_use() -> None:
    for path, symbol, lines, expected in [
        ("a.py", "Store.put", ["class Store:", "    def put(self):", "class A:", "    def put(self):", "put()"], [2]),
        ("a.py", "LIMIT", ["LIMIT = 3", "if LIMIT == 3:", "x = LIMIT", "LIMIT: int = 4", "limit(LIMIT)"], [1, 4]),
        ("a.py", "run", ["async def run():", "await run()", "return run(x)", "    run(x)", "runs = 1"], [1]),
        ("a.py", "port", ["        self.port = 1", "self.port == 1"], [1]),
        (
            "a.ts",
            "Foo",
            ["export default class Foo {", "new Foo();", "const x: Foo = 1", "type Foo = string"],
            [1, 4],
        ),
        ("a.ts", "Foo", ["export interface Foo<T> {", "declare enum Foo {", "f(Foo)"], [1, 2]),
        ("a.js", "go", ["const go = () => {", "go();", "  async go(a, b) {", "export function go() {"], [1, 3, 4]),
        ("a.js", "$el", ["let $el = 1", "let el = 2"], [1]),
        ("a.go", "Server.Start", ["func (s *Server) Start() error {", "func Start() {", "s.Start()"], [1]),
        ("a.go", "Config", ["type Config struct {", "\tc Config", "var x Config"], [1]),
        ("a.rs", "parse", ["pub(crate) async fn parse<T>(x: T) {", "let y = parse(x);", "    parse(x)"], [1]),
        ("a.rs", "Foo::bar", ["impl Foo {", "    pub fn bar(&self) {", "}", "impl Baz {", "    fn bar() {"], [2]),
        ("A.java", "save", ["  public static <T> void save(T x) {", "  return save(x);", "  save(x);"], [1]),
        ("A.java", "items", ["  private List<Item> items;", "  items.add(x);"], [1]),
        ("a.c", "init", ["static int init(void)", "    init();", "int *init(int a) {", "#define init 3"], [1, 3, 4]),
        ("a.c", "point", ["typedef struct {", "} point;", "  point p;", "struct point {"], [2, 4]),
        ("a.cpp", "Foo::run", ["void Foo::run() {", "void Bar::run() {", "foo.run();"], [1]),
        ("a.sh", "build", ["build() {", "function build {", "build", "build()", "  build all"], [1, 2]),
        ("Makefile", "test", ["test: all", "\tmake test", ".PHONY: test"], [1]),
        ("a.md", "the-header", ["# The header", "## The Header!", "the-header", "text"], [1, 2]),
        ("a.md", "größe", ["# Größe"], [1]),
        ("a.json", "name", ['  "name": "x",', '"x": "name"'], [1]),
        ("a.sql", "users", ["CREATE TABLE IF NOT EXISTS users (", "select * from users;"], [1]),
        ("notes.txt", "main", ["def main():"], []),
    ]:
        assert defining([line.encode() for line in lines], path, symbol) == expected


def test_a_symbol_is_a_whole_word() -> None:
    lines = [b"xfoo foox", "éfoo".encode(), b"$foo", b"a.foo(1)"]

    assert holding(lines, "foo") == [4]
    assert holding(lines, "b.foo") == []


def test_a_hostile_line_does_not_take_long() -> None:
    for line in [
        b"a " * 900, b"a." * 900, b"(" * 1800, b"export " * 250, b"pub(" * 450, b" " * 1800, b"a<" * 900,
        b"def " * 450,
    ]:  # fmt: skip
        begin = time.process_time()
        defining([line + b"x"] * 200, "a.py", "x")
        defining([line + b"x ("] * 200, "a.py", "x")
        assert time.process_time() - begin < 10
