-- Objects lie sealed: under which key, how long the file is, and what was found damaged.

-- key_id is that of the file's header; null: the file is plain, from before, and will be sealed.
-- size_bytes is what readers get. The digest of a blob is its id: that of what is plain.
ALTER TABLE objects ADD COLUMN key_id TEXT;
ALTER TABLE objects ADD COLUMN stored_bytes BIGINT;

-- Whoever can store it again is told that it is not there.
ALTER TABLE objects ADD COLUMN damaged_ms BIGINT;

CREATE INDEX objects_key ON objects (domain, class, key_id);
