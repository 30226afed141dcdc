CREATE TABLE session (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  cwd TEXT NOT NULL,
  canonical TEXT NOT NULL,
  -- Of the two above.
  folder_sum BLOB NOT NULL,
  parent TEXT,
  title TEXT,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  prompts INTEGER NOT NULL,
  next INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  -- 0 while it is copied or removed.
  is_whole INTEGER NOT NULL
) STRICT;
CREATE INDEX session_updated ON session(updated, id);
CREATE INDEX session_cwd ON session(cwd, updated, id);
CREATE INDEX session_canonical ON session(canonical, updated, id);

CREATE TABLE record (
  -- The key of its session, and its number in that in the lower 32 bits.
  id INTEGER PRIMARY KEY,
  prompt INTEGER NOT NULL,
  begins_prompt INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  starts_stream INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  subject TEXT,
  brief TEXT,
  text TEXT,
  -- The SHA-256 of each, one after the other.
  attachments BLOB,
  bytes INTEGER NOT NULL,
  json_bytes INTEGER NOT NULL,
  -- The SHA-256 of the JSON, which is the name of its file where it lies in one.
  json_hash BLOB NOT NULL,
  -- Of all above.
  sum BLOB NOT NULL,
  json TEXT
) STRICT;
CREATE INDEX record_prompt ON record(id) WHERE begins_prompt = 1;
CREATE INDEX record_start ON record(id, stream) WHERE starts_stream = 1;
CREATE INDEX record_heavy ON record(id, stream, json_bytes) WHERE brief IS NOT NULL;
CREATE INDEX record_files ON record(id) WHERE json IS NULL OR attachments IS NOT NULL;
CREATE INDEX record_subject ON record(subject, id) WHERE subject IS NOT NULL;

CREATE TABLE part (
  session INTEGER NOT NULL,
  name TEXT NOT NULL,
  json TEXT NOT NULL,
  sum BLOB NOT NULL,
  UNIQUE (session, name)
) STRICT;

CREATE VIRTUAL TABLE search USING fts5(text, content='', contentless_delete=1);
CREATE TRIGGER record_found AFTER INSERT ON record WHEN new.text IS NOT NULL BEGIN
  INSERT INTO search(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER record_lost AFTER DELETE ON record WHEN old.text IS NOT NULL BEGIN
  DELETE FROM search WHERE rowid = old.id;
END;
