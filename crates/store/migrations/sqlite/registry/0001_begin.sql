-- The registry's state. Times are microseconds since 1970, ids are the 16 bytes of a UUID, digests 32 bytes.

-- What is true of the whole installation: epoch.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE threads (
    id BLOB NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    created_by BLOB NOT NULL,
    changed_at INTEGER NOT NULL,
    title TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX threads_changed ON threads (changed_at);

CREATE TABLE turns (
    id BLOB NOT NULL PRIMARY KEY,
    thread BLOB NOT NULL REFERENCES threads (id),
    state TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    -- Where its message stands in the ledger.
    message INTEGER NOT NULL,
    -- The event of its last change.
    changed INTEGER NOT NULL
) STRICT;
CREATE INDEX turns_thread ON turns (thread);
CREATE INDEX turns_live ON turns (changed) WHERE state IN ('open', 'running', 'parked');

-- The ledger.
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    thread BLOB NOT NULL REFERENCES threads (id),
    turn BLOB NOT NULL REFERENCES turns (id),
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX entries_thread ON entries (thread, seq);

-- The same key in the same thread gets the same answer.
CREATE TABLE message_keys (
    thread BLOB NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    turn BLOB NOT NULL REFERENCES turns (id),
    PRIMARY KEY (thread, key)
) STRICT;

CREATE TABLE gates (
    id BLOB NOT NULL PRIMARY KEY,
    thread BLOB NOT NULL REFERENCES threads (id),
    turn BLOB NOT NULL REFERENCES turns (id),
    card TEXT NOT NULL,
    digest BLOB NOT NULL,
    count INTEGER NOT NULL,
    asked_at INTEGER NOT NULL
) STRICT;
CREATE INDEX gates_thread ON gates (thread, asked_at);
CREATE INDEX gates_asked ON gates (asked_at);

CREATE TABLE calls (
    id BLOB NOT NULL PRIMARY KEY,
    gate BLOB REFERENCES gates (id),
    thread BLOB NOT NULL REFERENCES threads (id),
    turn BLOB NOT NULL REFERENCES turns (id),
    idx INTEGER NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    arguments_digest BLOB NOT NULL,
    principal TEXT NOT NULL,
    executor TEXT NOT NULL,
    plan BLOB NOT NULL,
    version INTEGER NOT NULL,
    -- The word of the state, and the whole state.
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    -- When time alone changes it.
    deadline INTEGER,
    filed_at INTEGER NOT NULL,
    -- The event of its last change.
    changed INTEGER NOT NULL,
    UNIQUE (turn, idx)
) STRICT;
CREATE INDEX calls_thread ON calls (thread, filed_at);
CREATE INDEX calls_gate ON calls (gate);
CREATE INDEX calls_live ON calls (executor, state) WHERE state IN ('pending', 'approved', 'claimed');
CREATE INDEX calls_deadline ON calls (state, deadline) WHERE deadline IS NOT NULL;

CREATE TABLE plans (
    call BLOB NOT NULL PRIMARY KEY REFERENCES calls (id),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE outputs (
    call BLOB NOT NULL PRIMARY KEY REFERENCES calls (id),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE permits (
    id BLOB NOT NULL PRIMARY KEY,
    call BLOB NOT NULL REFERENCES calls (id),
    epoch INTEGER NOT NULL,
    minted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX permits_call ON permits (call);

-- What happened, for those who follow.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    thread BLOB NOT NULL,
    turn BLOB,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX events_thread ON events (thread, seq);

-- The audit chain; payloads apart, so that they can be erased.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TABLE audit_payloads (
    seq INTEGER PRIMARY KEY REFERENCES audit (seq),
    body TEXT NOT NULL
) STRICT;
CREATE TABLE audit_heads (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- The mesh: who holds which key, and which join tokens there are.
CREATE TABLE identities (
    service TEXT NOT NULL PRIMARY KEY,
    public_key BLOB NOT NULL,
    not_after INTEGER NOT NULL
) STRICT;
CREATE TABLE join_tokens (
    digest BLOB NOT NULL PRIMARY KEY,
    service TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER
) STRICT;
