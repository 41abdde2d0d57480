#!/usr/bin/env -S python3 -B
"""The generators of queries and migrations refuse what must not reach the binary."""
import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).parent
GOOD = "-- name: run_get (id) -> state\nSELECT state FROM runs WHERE id = $1;\n"


def generate(tool, outputs, files):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        folder = root / "in"
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text)
        paths = [root / output for output in outputs]
        done = subprocess.run([TOOLS / tool, folder, *paths, root / "out.d"],
                              capture_output=True, text=True)
        written = [p.read_text() if p.exists() else "" for p in paths]
        return done.returncode == 0, done.stderr, written


def queries(**files):
    return generate("gen_queries.py", ["queries.h", "queries.c"],
                    {f"{name}.sql": text for name, text in files.items()})


def migrations(files):
    return generate("gen_migrations.py", ["migrations.c"], files)


class Queries(unittest.TestCase):
    def refuses(self, text, why):
        ok, message, _ = queries(a=text)
        self.assertFalse(ok, text)
        self.assertIn(why, message)

    def test_a_query_becomes_a_constant_and_its_columns_an_enum(self):
        ok, _, (header, source) = queries(a=GOOD)
        self.assertTrue(ok)
        self.assertIn("extern const struct query run_get;", header)
        self.assertIn("enum { RUN_GET_STATE };", header)
        self.assertIn('"run_get", 1, 1,', source)

    def test_a_head_may_go_on_after_a_comma(self):
        ok, _, (header, _) = queries(a="-- name: x (id) -> a,\n--     b\nSELECT a, b FROM t "
                                       "WHERE id = $1;\n")
        self.assertTrue(ok)
        self.assertIn("enum { X_A, X_B };", header)

    def test_a_wrong_count_of_parameters_is_refused(self):
        self.refuses("-- name: x (a)\nDELETE FROM t;\n", "names 1 parameters and uses none")
        self.refuses("-- name: x (a)\nDELETE FROM t WHERE a = $2;\n", "uses $2")
        self.refuses("-- name: x ()\nDELETE FROM t WHERE a = $1;\n", "names 0 parameters")

    def test_a_dollar_in_a_literal_is_no_parameter(self):
        self.assertTrue(queries(a="-- name: x ()\nDELETE FROM t WHERE a = '$1 -- ;';\n")[0])

    def test_a_name_is_defined_once(self):
        self.refuses(GOOD + GOOD, "run_get is defined twice")
        self.assertIn("twice", queries(a=GOOD, b=GOOD)[1])

    def test_two_queries_cannot_make_the_same_enumerator(self):
        self.refuses("-- name: a () -> b_c\nSELECT 1;\n-- name: a_b () -> c\nSELECT 1;\n", "A_B_C")

    def test_what_the_engines_read_differently_is_refused(self):
        for sql in ("SELECT a FROM t WHERE a LIKE 'x'", "SELECT CURRENT_TIMESTAMP",
                    "SELECT a ->> 'b' FROM t", "SELECT a FROM t FOR UPDATE", "SELECT random()",
                    'SELECT "a" FROM t', "SELECT a FROM t {other}", "SELECT 1; SELECT 2"):
            ok, _, _ = queries(a=f"-- name: x () -> a\n{sql};\n")
            self.assertFalse(ok, sql)

    def test_only_postgresql_gets_row_locks(self):
        ok, _, (_, source) = queries(a="-- name: x () -> a\nSELECT a FROM t {skip_locked};\n")
        self.assertTrue(ok)
        self.assertIn('"SELECT a FROM t",', source)
        self.assertIn('"SELECT a FROM t FOR UPDATE SKIP LOCKED",', source)

    def test_sql_without_a_head_is_refused(self):
        self.refuses("SELECT 1;\n" + GOOD, "before the first")
        self.refuses("-- name: oops\nSELECT 1;\n", "cannot read")


class Migrations(unittest.TestCase):
    def test_numbers_start_at_one_and_have_no_gaps(self):
        table = "CREATE TABLE t (id TEXT PRIMARY KEY);\n"
        self.assertTrue(migrations({"0001_a.sql": table, "0002_b.sql": table})[0])
        self.assertFalse(migrations({"0002_a.sql": table})[0])
        self.assertFalse(migrations({"0001_a.sql": table, "0003_b.sql": table})[0])
        self.assertFalse(migrations({"0001_a.sql": table, "0001_b.sql": table})[0])
        self.assertFalse(migrations({"first.sql": table})[0])

    def test_each_engine_gets_columns_that_behave_the_same(self):
        ok, _, (source,) = migrations(
            {"0001_a.sql": "CREATE TABLE t (id TEXT PRIMARY KEY, a BYTEA DEFAULT 'BYTEA');\n"})
        self.assertTrue(ok)
        self.assertIn("id TEXT NOT NULL PRIMARY KEY, a BLOB DEFAULT 'BYTEA'", source)
        self.assertIn("id TEXT COLLATE \\\"C\\\" PRIMARY KEY, a BYTEA DEFAULT 'BYTEA'", source)

    def test_the_checksum_is_of_the_statements_not_of_the_comments(self):
        def checksum(text):
            return migrations({"0001_a.sql": text})[2][0].split('"')[5]

        plain = checksum("CREATE TABLE t (id TEXT);\n")
        self.assertEqual(plain, checksum("-- why\nCREATE  TABLE t (id TEXT);\n"))
        self.assertNotEqual(plain, checksum("CREATE TABLE t (id BYTEA);\n"))


unittest.main()
