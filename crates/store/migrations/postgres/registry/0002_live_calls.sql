-- An index is used only where its condition is the query's own: one for each question about live calls.
DROP INDEX calls_live;
CREATE INDEX calls_pending ON calls (thread, gate) WHERE state = 'pending';
CREATE INDEX calls_approved ON calls (executor, changed) WHERE state = 'approved';
CREATE INDEX calls_claimed ON calls (executor) WHERE state = 'claimed';
