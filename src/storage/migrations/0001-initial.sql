-- Inventory, positions, records. The views pgsluice.log and pgsluice.rejected are the contract; the tables are private.

CREATE TABLE pgsluice.host (
  host_id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name          text NOT NULL,
  address       text NOT NULL,
  port          integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
  username      text,
  identity_file text,
  jump_hosts    text[] NOT NULL DEFAULT '{}',
  sudo_user     text,
  host_keys     text[] NOT NULL,
  transport     text NOT NULL DEFAULT 'auto' CHECK (transport IN ('auto', 'openssh', 'ssh2', 'local')),
  labels        jsonb NOT NULL DEFAULT '{}',
  paused        boolean NOT NULL DEFAULT false,
  added_at      timestamptz NOT NULL DEFAULT now(),
  removed_at    timestamptz
);
-- A removed host keeps its records and gives back its name.
CREATE UNIQUE INDEX host_name_key ON pgsluice.host (name) WHERE removed_at IS NULL;

CREATE TABLE pgsluice.stream (
  stream_id    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  host_id      integer NOT NULL REFERENCES pgsluice.host,
  path         text NOT NULL,
  format       text NOT NULL,
  line_prefix  text,
  start_at     text NOT NULL CHECK (start_at IN ('end', 'current', 'start')),
  epoch        bigint NOT NULL DEFAULT 0,      -- rises with every assignment; a commit must carry it
  begun        boolean NOT NULL DEFAULT false, -- what start_at skips has been recorded in file
  next_file_no integer NOT NULL DEFAULT 1,
  committed_at timestamptz,
  UNIQUE (host_id, path)
);

-- A file of a stream and its position. Files that are gone from the host stay here: records name them.
CREATE TABLE pgsluice.file (
  stream_id   integer NOT NULL REFERENCES pgsluice.stream,
  file_no     integer NOT NULL,
  inode       text NOT NULL,
  name        text NOT NULL,
  "offset"    bigint NOT NULL, -- bytes up to which records are committed
  head_length integer NOT NULL,
  head_sum    bigint NOT NULL, -- POSIX cksum of [0, head_length)
  tail_length integer NOT NULL,
  tail_sum    bigint NOT NULL, -- POSIX cksum of [offset - tail_length, offset)
  gone_at     timestamptz, -- it may come back: a volume that was not mounted, a file that was moved away
  first_seen  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (stream_id, file_no)
);
CREATE INDEX file_present ON pgsluice.file (stream_id) WHERE gone_at IS NULL;

-- No index: the hot partition carries nothing that ingestion must pay for.
CREATE TABLE pgsluice.record (
  stream_id              integer NOT NULL,
  file_no                integer NOT NULL,
  file_offset            bigint NOT NULL,
  log_time               timestamp(3) with time zone,
  user_name              text,
  database_name          text,
  process_id             integer,
  connection_from        text,
  session_id             text,
  session_line_num       bigint,
  command_tag            text,
  session_start_time     timestamp with time zone,
  virtual_transaction_id text,
  transaction_id         bigint,
  error_severity         text,
  sql_state_code         text,
  message                text,
  detail                 text,
  hint                   text,
  internal_query         text,
  internal_query_pos     integer,
  context                text,
  query                  text,
  query_pos              integer,
  location               text,
  application_name       text,
  backend_type           text,
  leader_pid             integer,
  query_id               bigint,
  duration_ms            double precision,
  marks                  integer -- bit i: the i-th csvlog column (from 0) holds escaped bytes; NULL: none
) PARTITION BY RANGE (log_time);
CREATE TABLE pgsluice.record_default PARTITION OF pgsluice.record DEFAULT;

CREATE TABLE pgsluice.reject (
  stream_id   integer NOT NULL,
  file_no     integer NOT NULL,
  file_offset bigint NOT NULL,
  length      bigint NOT NULL,
  received_at timestamp with time zone NOT NULL,
  reason      text NOT NULL,
  bytes       bytea NOT NULL
) PARTITION BY RANGE (received_at);
CREATE TABLE pgsluice.reject_default PARTITION OF pgsluice.reject DEFAULT;

CREATE VIEW pgsluice.log AS
SELECT h.name AS host, s.path AS stream,
       r.log_time, r.user_name, r.database_name, r.process_id, r.connection_from, r.session_id, r.session_line_num,
       r.command_tag, r.session_start_time, r.virtual_transaction_id, r.transaction_id, r.error_severity,
       r.sql_state_code, r.message, r.detail, r.hint, r.internal_query, r.internal_query_pos, r.context, r.query,
       r.query_pos, r.location, r.application_name, r.backend_type, r.leader_pid, r.query_id,
       r.duration_ms, f.name AS file, r.file_offset
  FROM pgsluice.record r
  JOIN pgsluice.stream s USING (stream_id)
  JOIN pgsluice.host h USING (host_id)
  JOIN pgsluice.file f USING (stream_id, file_no);

CREATE VIEW pgsluice.rejected AS
SELECT h.name AS host, s.path AS stream, f.name AS file, r.file_offset, r.length, r.received_at, r.reason, r.bytes
  FROM pgsluice.reject r
  JOIN pgsluice.stream s USING (stream_id)
  JOIN pgsluice.host h USING (host_id)
  JOIN pgsluice.file f USING (stream_id, file_no);

-- Records whose bytes were made safe: which columns hold escapes (\xNN for a byte that is not UTF-8, \\ for a backslash).
CREATE VIEW pgsluice.escaped AS
SELECT h.name AS host, s.path AS stream, f.name AS file, r.file_offset, r.log_time,
       ARRAY(SELECT a.attname::text
               FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = 'pgsluice.record'::regclass AND a.attnum BETWEEN 4 AND 29
                AND r.marks & (1 << (a.attnum - 4)) <> 0
              ORDER BY a.attnum) AS columns
  FROM pgsluice.record r
  JOIN pgsluice.stream s USING (stream_id)
  JOIN pgsluice.host h USING (host_id)
  JOIN pgsluice.file f USING (stream_id, file_no)
 WHERE r.marks IS NOT NULL;
