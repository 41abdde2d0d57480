"""What the generators of queries and migrations know about SQL text: where its literals and
comments are, and what one text becomes on each engine."""
import re

TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|[^'-]+|-", re.S)

# Both engines take these and mean different things by them, or only one takes them.
REFUSED = (
    (r"\bI?LIKE\b", "LIKE ignores case on SQLite only: compare lowered columns"),
    (r"\bCURRENT_(TIME|DATE|TIMESTAMP)\b|\bnow\(", "a clock in SQL: pass the time as a parameter"),
    (r"\brandom\(", "random() differs: make ids and chances in C"),
    (r"->", "JSON operators differ: decode in C"),
    (r"\bANY\b", "ANY is PostgreSQL's: join a values list"),
    (r"\bFOR\s+(UPDATE|SHARE)\b", "SQLite has no row locks: write {skip_locked}"),
    (r"\b(AUTOINCREMENT|IDENTITY|SERIAL|BIGSERIAL)\b", "ids are made in C"),
    (r"\b(BLOB|STRICT)\b", "that is SQLite's: use BYTEA and CHECK"),
    (r"\b(BOOLEAN|REAL|DOUBLE|FLOAT|TIMESTAMPTZ?|JSONB?|INTEGER|INT)\b",
     "columns are TEXT, BIGINT or BYTEA"),
    (r'"', "double quotes mean different things: choose a name that needs none"),
    (r"\?", "parameters are written $1, $2"),
    (r"\{(?!skip_locked\})", "the only substitution is {skip_locked}"),
)


def tokens(text):
    for match in TOKEN.finditer(text):
        yield match[0]


def is_literal(token):
    return token.startswith("'")


def outside_literals(text, change):
    return "".join(t if is_literal(t) else change(t) for t in tokens(text))


def without_comments(text):
    return "".join(" " if t.startswith("--") else t for t in tokens(text))


def one_line(text):
    plain = without_comments(text)
    return outside_literals(plain, lambda t: re.sub(r"\s+", " ", t)).strip()


def code_only(text):
    return "".join("''" if is_literal(t) else t for t in tokens(text))


def refuse(sql):
    """Why this statement is not of our dialect, or None."""
    code = code_only(sql)
    for pattern, why in REFUSED:
        if re.search(pattern, code, re.I):
            return why
    if ";" in code:
        return "it is more than one statement"
    return None


def statements(text):
    """The text between the semicolons that are not in a literal."""
    parts = [""]
    for token in tokens(text):
        pieces = [token] if is_literal(token) else token.split(";")
        parts[-1] += pieces[0]
        parts.extend(pieces[1:])
    return parts


def parameters(sql):
    return {int(n) for n in re.findall(r"\$(\d+)", code_only(sql))}


def for_sqlite(sql):
    """BYTEA would have numeric affinity there, and a text of digits would become a number."""
    return outside_literals(
        sql, lambda t: re.sub(r"\bBYTEA\b", "BLOB", t).replace("{skip_locked}", "")).strip()


def for_postgres(sql):
    return outside_literals(
        sql, lambda t: t.replace("{skip_locked}", "FOR UPDATE SKIP LOCKED")).strip()


def schema_for_sqlite(script):
    """A primary key may hold nulls there unless told."""
    return outside_literals(
        for_sqlite(script), lambda t: re.sub(r"\b(TEXT|BIGINT|BLOB) PRIMARY KEY\b",
                                             r"\1 NOT NULL PRIMARY KEY", t))


def schema_for_postgres(script):
    """Text is ordered by its bytes, as on SQLite, whatever the database's own collation is."""
    return outside_literals(
        script, lambda t: re.sub(r"(?<!AS )\bTEXT\b", 'TEXT COLLATE "C"', t)).strip()


def c_string(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def write_depfile(depfile, target, folder, files):
    """The folder is an input too: a new file in it is a reason to run again."""
    inputs = " ".join(str(path).replace(" ", "\\ ") for path in [folder, *files, __file__])
    depfile.write_text(f"{target}: {inputs}\n")
