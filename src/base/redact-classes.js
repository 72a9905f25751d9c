/** The classes of secrets that log.redact names, those of the option filter_log_secret of pganalyze's collector. */
export const REDACT_CLASSES = Object.freeze(
  /** @type {const} */ ([
    'credential',
    'parsing_error',
    'statement_text',
    'statement_parameter',
    'table_data',
    'ops',
    'unidentified',
  ]),
);

/** @typedef {(typeof REDACT_CLASSES)[number]} RedactClass */
