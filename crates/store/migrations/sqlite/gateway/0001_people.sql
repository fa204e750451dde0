-- People who may sign in, and what they sign in with. Of every secret only its SHA-256 is here.

CREATE TABLE persons (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'approver', 'operator', 'admin')),
    is_operator INTEGER NOT NULL CHECK (is_operator IN (0, 1)),
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX persons_by_name ON persons (folded) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX persons_operator ON persons (is_operator) WHERE is_operator = 1;

CREATE TABLE sessions (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    person BLOB NOT NULL REFERENCES persons (id),
    secret BLOB NOT NULL UNIQUE CHECK (length(secret) = 32),
    way TEXT NOT NULL CHECK (way IN ('link', 'secret')),
    client TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_person ON sessions (person);

CREATE TABLE tokens (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    person BLOB NOT NULL REFERENCES persons (id),
    secret BLOB NOT NULL UNIQUE CHECK (length(secret) = 32),
    name TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;
CREATE INDEX tokens_by_person ON tokens (person);

CREATE TABLE links (
    secret BLOB PRIMARY KEY CHECK (length(secret) = 32),
    person BLOB NOT NULL REFERENCES persons (id),
    made_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX links_by_person ON links (person);

-- Failed sign-ins, so that a restart does not give new tries.
CREATE TABLE failures (
    id INTEGER PRIMARY KEY,
    peer TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX failures_by_time ON failures (at);

-- How far the registry's events were told to those who look.
CREATE TABLE cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;
INSERT INTO cursor (one, seq) VALUES (1, 0);
