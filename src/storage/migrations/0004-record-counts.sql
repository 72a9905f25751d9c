-- How many records of a stream are in record, counted by the transaction that stored them (retention takes nothing
-- off). By it a reader that looks for new records where they most likely are knows whether it has found all of them.
ALTER TABLE pgsluice.stream ADD COLUMN records bigint NOT NULL DEFAULT 0;
