-- Records of a file may be in partitions up to this day: they were moved there from the default one, where times in the
-- future wait for their day. NULL: none were moved. What was moved before is in the partitions that there are.
ALTER TABLE pgsluice.file ADD COLUMN records_until date DEFAULT current_date + 4;
ALTER TABLE pgsluice.file ALTER COLUMN records_until DROP DEFAULT;
