/**
 * What parsers and row encoders of all formats are given: where results go, and what is known of the file. Types alone.
 */

/** @import { CopyBuffer } from './copy-buffer.js' */
/** @import { Rejected } from './copy-rejected.js' */

/**
 * @typedef {object} CutRecord a record that is longer than the limit; its beginning has become a row
 * @property {number} streamId int4
 * @property {number} fileNo int4
 * @property {number} offset of its first byte in the file, as in the row
 * @property {number} length of the whole record in bytes
 * @property {Buffer} sha256 of all its bytes
 */

/**
 * @typedef {object} RowSink where a parser puts what it finds; the caller owns and empties it between writes
 * @property {CopyBuffer} rows rows of the log table (copy-columns.js)
 * @property {Set<number>} days UTC days of log_time of those rows, as days since 1970-01-01: the partitions needed
 * @property {number} receivedAtMs now, milliseconds since 1970-01-01: for records that tell no usable time
 * @property {(rejected: Rejected) => void} reject its bytes are a view, valid only during the call
 * @property {(cut: CutRecord) => void} cut
 */

/**
 * @typedef {(bytes: Uint8Array) => Buffer | null} Decoder text in another encoding -> UTF-8; null when some byte means
 *   nothing in that encoding
 */

/**
 * @typedef {object} RowContext what the row encoders of a file share
 * @property {number} streamId int4
 * @property {number} fileNo int4
 * @property {ReadonlyMap<string, number>} zones time zone abbreviation -> seconds east of UTC, as the storage reads them
 * @property {string | null} [timeZone] the server's log_timezone, a name of the IANA database; null: not known
 * @property {(databaseName: string | null) => Decoder | null} [decoderOf] for texts that are not UTF-8; the name of the
 *   database as its bytes are written in the log, one character a byte (latin1); null: such bytes are escaped
 */

export {};
