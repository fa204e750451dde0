-- What a turn's model said, a step at a time, written before anything of it is done.
CREATE TABLE steps (
    turn BLOB NOT NULL,
    step INTEGER NOT NULL CHECK (step >= 0),
    thread BLOB NOT NULL,
    text TEXT NOT NULL,
    -- 'done' or 'failed' where this step is the turn's last words.
    ending TEXT CHECK (ending IN ('done', 'failed')),
    at INTEGER NOT NULL,
    PRIMARY KEY (turn, step)
) STRICT;

CREATE INDEX steps_by_time ON steps (at);
CREATE INDEX steps_by_thread ON steps (thread);

-- The calls of those steps. The key is what a call is filed under: one index, one call, for good.
CREATE TABLE step_calls (
    turn BLOB NOT NULL,
    call_index INTEGER NOT NULL CHECK (call_index >= 0),
    step INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    -- The registry's id, once it answered.
    call BLOB,
    PRIMARY KEY (turn, call_index),
    FOREIGN KEY (turn, step) REFERENCES steps (turn, step) ON DELETE CASCADE
) STRICT;
