-- How whoever spoke waits for the turn: `parked` or `blocking`.
ALTER TABLE turns ADD COLUMN wait TEXT NOT NULL DEFAULT 'parked';
