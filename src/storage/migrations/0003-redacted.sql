-- Records that secrets were taken out of: bit 27 of marks (src/codec/row-ends.js).
CREATE OR REPLACE VIEW pgsluice.marked AS
SELECT h.name AS host, s.path AS stream, f.name AS file, r.file_offset, r.log_time,
       ARRAY(SELECT a.attname::text -- texts with \xNN for a byte that is not UTF-8 and \\ for a backslash
               FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = 'pgsluice.record'::regclass AND a.attnum BETWEEN 4 AND 29
                AND a.attnum NOT IN (4, 12) AND r.marks & (1::bigint << (a.attnum - 4)) <> 0
              ORDER BY a.attnum) AS escaped_columns,
       r.marks & 1 <> 0 AS arrival_time,    -- log_time is when it arrived: the log does not tell
       w.word AS severity_word,             -- error_severity as it was written
       r.marks & (1 << 26) <> 0 AS cut,     -- its beginning alone is stored
       c.length, c.sha256,                  -- of the whole record, if it was cut
       r.marks & (1 << 27) <> 0 AS redacted -- secrets were taken out (log.redact)
  FROM pgsluice.record r
  JOIN pgsluice.stream s USING (stream_id)
  JOIN pgsluice.host h USING (host_id)
  JOIN pgsluice.file f USING (stream_id, file_no)
  LEFT JOIN pgsluice.severity_word w ON w.word_id = r.marks >> 32
  LEFT JOIN pgsluice.cut c ON c.stream_id = r.stream_id AND c.file_no = r.file_no AND c.file_offset = r.file_offset
                          AND r.marks & (1 << 26) <> 0
 WHERE r.marks IS NOT NULL;
