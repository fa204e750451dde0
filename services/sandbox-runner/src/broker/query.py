# Runs in a sandbox: asks one question of one database and prints one JSON document. The job comes on standard input.
#
# The statement was judged before. This is the second lock, in SQLite itself: the file is opened read-only beneath the
# workspace and through no link, the connection refuses to write, an authorizer lets through reading and the listed
# functions alone, whatever views and virtual tables of the file itself may ask for; and size, memory and time are bounded.
import json, os, stat, sys, time, urllib.parse

try:
    import sqlite3
except ImportError:
    print('{"error":"the Python of the sandbox has no sqlite3; install its whole standard library"}', flush=True)
    os._exit(3)

# A database that was not closed is copied up to this size, with what is beside it; /tmp has room for little more.
COPY_BYTES = 48 << 20
# One value, one row, one text that a function makes.
VALUE_BYTES = 16 << 20
# What SQLite may take of the sandbox's memory in all.
HEAP_BYTES = 256 << 20
COLUMNS = 200
# Characters of a text and bytes of a blob that are shown.
TEXT_SHOWN = 4000
BLOB_SHOWN = 64
NAME_SHOWN = 200
# What is kept free for the end of the document.
ENDING = 1000
COPY = "/tmp/query.db"
STEPS = 20_000


class Failed(Exception):
    pass


class Place:
    """The database's folder, reached name by name through no link."""

    def __init__(self, path):
        *folders, self.name = path.split("/")
        self.folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        for part in folders:
            seen = os.stat(part, dir_fd=self.folder, follow_symlinks=False)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            self.folder = os.open(part, flags, dir_fd=self.folder)
            # gVisor follows a link to a folder all the same.
            if not stat.S_ISDIR(seen.st_mode) or not os.path.samestat(seen, os.fstat(self.folder)):
                raise Failed(f"the database cannot be opened: {part} is no folder")

    def look(self, ending=""):
        try:
            found = os.stat(self.name + ending, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise Failed(f"{self.name}{ending} is no regular file with one name")
        return found

    def looks(self):
        """What tells whether somebody wrote meanwhile."""
        seen = [self.look(ending) for ending in ("", "-wal", "-journal")]
        return [found and (found.st_ino, found.st_size, found.st_mtime_ns) for found in seen]

    def open(self, ending=""):
        return os.open(self.name + ending, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.folder)

    def head(self):
        with open(self.open(), "rb") as file:
            return file.read(16)


def copied(place, endings):
    """Copies the database with what is beside it, as it was at one moment."""
    for _ in range(3):
        before = place.looks()
        if sum(found[1] for found in before if found) > COPY_BYTES:
            raise Failed(
                "the database was not closed by its program, and with what is beside it (-wal or -journal) it is "
                f"larger than {COPY_BYTES >> 20} MiB; close the program that uses it, or let it checkpoint"
            )
        for ending in ("", *endings):
            with open(place.open(ending), "rb") as source, open(COPY + ending, "wb") as target:
                left = COPY_BYTES
                while left > 0 and (piece := source.read(min(1 << 20, left))):
                    target.write(piece)
                    left -= len(piece)
        if place.looks() == before:
            return
    raise Failed("the database is being written all the time; ask again when its program rests")


def connect(place):
    if (main := place.look()) is None:
        raise Failed("there is no such file any more")
    if main.st_size == 0:
        raise Failed("the file is empty, so it is no database yet")
    if place.head() != b"SQLite format 3\0":
        raise Failed("the file is no SQLite 3 database, or it is encrypted")
    endings = [end for end in ("-wal", "-journal") if (found := place.look(end)) and found.st_size]
    if endings:
        copied(place, endings)
        uri = f"file:{COPY}?mode=rw"
    else:
        uri = f"file:./{urllib.parse.quote(job['path'])}?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)
    bound(db)
    if endings:
        # Nobody else has the copy; without this a -wal needs memory that is shared.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA schema_version").fetchall()
    db.execute("PRAGMA query_only = ON")
    if not endings:
        opened = set()
        for number in os.listdir("/proc/self/fd"):
            try:
                found = os.fstat(int(number))
            except OSError:
                continue
            opened.add((found.st_dev, found.st_ino))
        if (main.st_dev, main.st_ino) not in opened:
            raise Failed("the file was replaced while it was opened; ask again")
    return db


def bound(db):
    if hasattr(db, "setlimit"):
        for name, most in (
            ("LENGTH", VALUE_BYTES),
            ("SQL_LENGTH", 64 << 10),
            ("COLUMN", COLUMNS),
            ("EXPR_DEPTH", 500),
            ("COMPOUND_SELECT", 200),
            ("FUNCTION_ARG", 100),
            ("ATTACHED", 0),
            ("LIKE_PATTERN_LENGTH", 1000),
            ("VARIABLE_NUMBER", 100),
            ("TRIGGER_DEPTH", 1),
            ("WORKER_THREADS", 0),
        ):
            db.setlimit(getattr(sqlite3, "SQLITE_LIMIT_" + name), most)
    if hasattr(db, "setconfig"):
        for name, on in (("DEFENSIVE", True), ("TRUSTED_SCHEMA", False), ("ENABLE_TRIGGER", False)):
            db.setconfig(getattr(sqlite3, "SQLITE_DBCONFIG_" + name), on)
    for setting in (
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "temp_store = MEMORY",
        "cache_size = -16384",
        f"hard_heap_limit = {HEAP_BYTES}",
    ):
        db.execute("PRAGMA " + setting).fetchall()


def guard(db):
    functions = frozenset(job["functions"])
    # What full-text search asks of its own file while it reads.
    settings = {("data_version", None), ("page_size", None)}
    # What SQLite checks for itself when it opens a virtual table, json_each among them. Nobody can carry it out: the
    # table of definitions is not writable, and neither is anything else.
    own = {("sqlite_master", column) for column in ("type", "name", "tbl_name", "rootpage", "sql")}
    names = {
        getattr(sqlite3, "SQLITE_" + name): name
        for name in "INSERT UPDATE DELETE PRAGMA ATTACH DETACH TRANSACTION SAVEPOINT ANALYZE REINDEX".split()
    }
    refused = []

    def authorize(action, one, two, database, within):
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and not (one or "").lower().startswith("pragma_"):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in functions:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and ((one or "").lower(), two) in settings:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_UPDATE and (one, two) in own:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            what = f"the function {two}"
        else:
            what = f"{names.get(action, f'action {action}')} of {one}"
        refused.append(what + (f" in {within}" if within else ""))
        return sqlite3.SQLITE_DENY

    db.set_authorizer(authorize)
    return refused


def shown(value):
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if abs(value) <= sys.float_info.max else {"real": "Infinity" if value > 0 else "-Infinity"}
    # Texts come as bytearray, blobs as bytes.
    if isinstance(value, bytes):
        return {"blob": value[:BLOB_SHOWN].hex(), "bytes": len(value)}
    try:
        text, odd = value.decode(), False
    except UnicodeDecodeError:
        text, odd = value.decode(errors="replace"), True
    if not odd and len(text) <= TEXT_SHOWN:
        return text
    return {"text": text[:TEXT_SHOWN], "characters": len(text), **({"not_utf8": True} if odd else {})}


def written(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer(db):
    place_of_rows = job["bytes"] - ENDING
    cursor = db.execute(job["query"], job["parameters"])
    columns = [column[0][:NAME_SHOWN] for column in cursor.description or ()]
    head = '{"columns":' + written(columns) + ',\n"rows":['
    size = len(head.encode())
    if size * 2 > place_of_rows:
        raise Failed("the names of the columns alone fill the answer; select fewer columns, or name them by AS")
    rows, more, notes = [], False, []
    for row in cursor:
        if len(rows) == job["limit"]:
            more = True
            notes.append(f"There are more than {len(rows)} rows; narrow the question, count, or set limit.")
            break
        line = written([shown(value) for value in row])
        size += len(line.encode()) + 2
        if size > place_of_rows:
            more = True
            notes.append(
                "The rows shown fill the answer, and there are more; select fewer columns, narrow the question or cut by substr()."
            )
            break
        rows.append(line)
    return head + "\n" + ",\n".join(rows) + "],\n", len(rows), more, notes


def main():
    place = Place(job["path"])
    before = place.looks()
    db = connect(place)
    db.text_factory = bytearray
    refused = guard(db)
    until = time.monotonic() + job["seconds"]
    db.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    try:
        text, count, more, notes = answer(db)
    except sqlite3.Error as error:
        words = str(error)
        if words == "interrupted":
            words = f"the time of {job['seconds']:g} s is over; ask for less, or by a column that has an index"
        elif refused:
            words = f"the query, or a view or virtual table in it, comes to what a query may not: {refused[0]}"
        raise Failed(words) from None
    if place.looks() != before:
        notes.append("The database was written while it was read, so the rows may not fit together. Ask again.")
    sys.stdout.write(text + f'"count":{count},"more":{written(more)},"notes":{written(notes)}}}\n')


def failed(words):
    print(written({"error": words[:500]}))
    sys.stdout.flush()
    os._exit(3)


try:
    job = json.loads(sys.stdin.buffer.read())
    main()
except Failed as error:
    failed(str(error))
except sqlite3.Error as error:
    failed(f"the database cannot be opened: {error}")
except OSError as error:
    failed(f"the database cannot be opened: {error.strerror}")
except MemoryError:
    failed("the query took more memory than the sandbox has; ask for less")
except UnicodeDecodeError:
    failed("a name in the database is no UTF-8 text; select columns by name, with AS")
