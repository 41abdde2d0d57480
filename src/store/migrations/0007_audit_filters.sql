-- Entries of one actor or of one action, newest first, without reading all the others.
CREATE INDEX audit_entries_actor_id ON audit_entries (actor_id, sequence);
CREATE INDEX audit_entries_actor_name ON audit_entries (actor_name, sequence);
CREATE INDEX audit_entries_action ON audit_entries (action, sequence);
