-- Formats besides csvlog, encodings, times, cut records, the journal, and losses that are counted.

ALTER TABLE pgsluice.stream
  ADD COLUMN found_prefix text,                       -- log_line_prefix as it was found from the lines
  ADD COLUMN encoding    text,                        -- of bytes that are not UTF-8; NULL: they are kept escaped
  ADD COLUMN encodings   jsonb NOT NULL DEFAULT '{}', -- the same by database name, which wins
  ADD COLUMN time_zone   text,                        -- the server's log_timezone; NULL: as found on the host
  ADD COLUMN open_file_no integer,                    -- the file that was being read at the last commit
  ADD COLUMN lost_bytes  bigint NOT NULL DEFAULT 0,   -- seen on the host and gone before they could be read
  ADD COLUMN lost_events bigint NOT NULL DEFAULT 0;   -- truncations and removals that may have taken unread bytes

ALTER TABLE pgsluice.file
  ADD COLUMN done_size bigint, -- of a compressed file that is dealt with for ever: its size
  ADD COLUMN cursor    text;   -- of a journal: what journalctl goes on after

-- bits: 0..25 column i is not as it was written, 26 the record was cut, 32..47 the word of error_severity
-- (src/codec/row-ends.js)
DROP VIEW pgsluice.escaped;
ALTER TABLE pgsluice.record ALTER COLUMN marks TYPE bigint;

-- The words that error_severity was translated from, by the number in marks (SEVERITY_WORDS of src/codec/languages.js).
CREATE TABLE pgsluice.severity_word (
  word_id integer PRIMARY KEY,
  word    text NOT NULL,
  tag     text NOT NULL
);
INSERT INTO pgsluice.severity_word VALUES
  (1, 'HINWEIS', 'NOTICE'),
  (2, 'WARNUNG', 'WARNING'),
  (3, 'FEHLER', 'ERROR'),
  (4, 'PANIK', 'PANIC'),
  (5, 'ATTENTION', 'WARNING'),
  (6, 'ERREUR', 'ERROR'),
  (7, 'PERINGATAN', 'WARNING'),
  (8, 'NOTIFICA', 'NOTICE'),
  (9, 'ATTENZIONE', 'WARNING'),
  (10, 'ERRORE', 'ERROR'),
  (11, 'FATALE', 'FATAL'),
  (12, 'PANICO', 'PANIC'),
  (13, 'გამართვა', 'DEBUG'),
  (14, 'ჟურნალი', 'LOG'),
  (15, 'ინფორმაცია', 'INFO'),
  (16, 'გაფრთხილება', 'WARNING'),
  (17, 'შეცდომა', 'ERROR'),
  (18, 'ფატალური', 'FATAL'),
  (19, 'პანიკა', 'PANIC'),
  (20, '디버그', 'DEBUG'),
  (21, '로그', 'LOG'),
  (22, '정보', 'INFO'),
  (23, '알림', 'NOTICE'),
  (24, '경고', 'WARNING'),
  (25, '오류', 'ERROR'),
  (26, '치명적오류', 'FATAL'),
  (27, '손상', 'PANIC'),
  (28, 'DZIENNIK', 'LOG'),
  (29, 'INFORMACJA', 'INFO'),
  (30, 'UWAGA', 'NOTICE'),
  (31, 'OSTRZEŻENIE', 'WARNING'),
  (32, 'BŁĄD', 'ERROR'),
  (33, 'KATASTROFALNY', 'FATAL'),
  (34, 'PANIKA', 'PANIC'),
  (35, 'DEPURAÇÃO', 'DEBUG'),
  (36, 'NOTA', 'NOTICE'),
  (37, 'AVISO', 'WARNING'),
  (38, 'ERRO', 'ERROR'),
  (39, 'PÂNICO', 'PANIC'),
  (40, 'ADVERTÊNCIA', 'WARNING'),
  (41, 'ОТЛАДКА', 'DEBUG'),
  (42, 'СООБЩЕНИЕ', 'LOG'),
  (43, 'ИНФОРМАЦИЯ', 'INFO'),
  (44, 'ЗАМЕЧАНИЕ', 'NOTICE'),
  (45, 'ПРЕДУПРЕЖДЕНИЕ', 'WARNING'),
  (46, 'ОШИБКА', 'ERROR'),
  (47, 'ВАЖНО', 'FATAL'),
  (48, 'ПАНИКА', 'PANIC'),
  (49, 'LOGG', 'LOG'),
  (50, 'NOTIS', 'NOTICE'),
  (51, 'VARNING', 'WARNING'),
  (52, 'FEL', 'ERROR'),
  (53, 'FATALT', 'FATAL'),
  (54, 'BİLGİ', 'INFO'),
  (55, 'NOT', 'NOTICE'),
  (56, 'UYARI', 'WARNING'),
  (57, 'HATA (ERROR)', 'ERROR'),
  (58, 'ÖLÜMCÜL (FATAL)', 'FATAL'),
  (59, 'KRİTİK (PANIC)', 'PANIC'),
  (60, 'HATA', 'ERROR'),
  (61, 'KRİTİK', 'PANIC'),
  (62, 'НАЛАГОДЖЕННЯ', 'DEBUG'),
  (63, 'ЗАПИСУВАННЯ', 'LOG'),
  (64, 'ІНФОРМАЦІЯ', 'INFO'),
  (65, 'ПОВІДОМЛЕННЯ', 'NOTICE'),
  (66, 'ПОПЕРЕДЖЕННЯ', 'WARNING'),
  (67, 'ПОМИЛКА', 'ERROR'),
  (68, 'ФАТАЛЬНО', 'FATAL'),
  (69, 'ПАНІКА', 'PANIC'),
  (70, '调试', 'DEBUG'),
  (71, '日志', 'LOG'),
  (72, '信息', 'INFO'),
  (73, '注意', 'NOTICE'),
  (74, '警告', 'WARNING'),
  (75, '错误', 'ERROR'),
  (76, '致命错误', 'FATAL'),
  (77, '比致命错误还过分的错误', 'PANIC'),
  (78, '除錯', 'DEBUG'),
  (79, '日誌', 'LOG'),
  (80, '資訊', 'INFO'),
  (81, '錯誤', 'ERROR'),
  (82, '嚴重錯誤', 'FATAL'),
  (83, '危急', 'PANIC');

-- Records longer than batch.max_record_bytes: their beginning is in record.
CREATE TABLE pgsluice.cut (
  stream_id   integer NOT NULL,
  file_no     integer NOT NULL,
  file_offset bigint NOT NULL,
  length      bigint NOT NULL,
  sha256      bytea NOT NULL, -- of all its bytes
  received_at timestamp with time zone NOT NULL
);

-- Records that are not stored just as they were written, and in what.
CREATE VIEW pgsluice.marked AS
SELECT h.name AS host, s.path AS stream, f.name AS file, r.file_offset, r.log_time,
       ARRAY(SELECT a.attname::text -- texts with \xNN for a byte that is not UTF-8 and \\ for a backslash
               FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = 'pgsluice.record'::regclass AND a.attnum BETWEEN 4 AND 29
                AND a.attnum NOT IN (4, 12) AND r.marks & (1::bigint << (a.attnum - 4)) <> 0
              ORDER BY a.attnum) AS escaped_columns,
       r.marks & 1 <> 0 AS arrival_time, -- log_time is when it arrived: the log does not tell
       w.word AS severity_word,          -- error_severity as it was written
       r.marks & (1 << 26) <> 0 AS cut,  -- its beginning alone is stored
       c.length, c.sha256                -- of the whole record, if it was cut
  FROM pgsluice.record r
  JOIN pgsluice.stream s USING (stream_id)
  JOIN pgsluice.host h USING (host_id)
  JOIN pgsluice.file f USING (stream_id, file_no)
  LEFT JOIN pgsluice.severity_word w ON w.word_id = r.marks >> 32
  LEFT JOIN pgsluice.cut c ON c.stream_id = r.stream_id AND c.file_no = r.file_no AND c.file_offset = r.file_offset
                          AND r.marks & (1 << 26) <> 0
 WHERE r.marks IS NOT NULL;
