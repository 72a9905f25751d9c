/**
 * A self-signed certificate with a key of its own, so that no key lies in the repository and no openssl is needed.
 * In: a host name. Out: both in PEM. DER as in RFC 5280, section 4.1; ECDSA with SHA-256 on P-256; a day each side.
 */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

const DAY_MS = 86_400_000;
const TAG = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  sequence: 0x30,
  set: 0x31,
};
/** Context-specific tags: [0] version, [3] extensions, and dNSName in a GeneralName. */
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;
const DNS_NAME = 0x82;
const ECDSA_WITH_SHA256 = '2a8648ce3d040302';
const COMMON_NAME = '550403';
const SUBJECT_ALT_NAME = '551d11';

/** @param {string} name @returns {{ cert: string, key: string }} */
export function makeCertificate(name) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(oid(ECDSA_WITH_SHA256));
  const subject = sequence(der(TAG.set, sequence(oid(COMMON_NAME), der(TAG.utf8, Buffer.from(name)))));
  const altName = sequence(der(DNS_NAME, Buffer.from(name)));
  const body = sequence(
    der(VERSION, der(TAG.integer, Buffer.of(2))),
    der(TAG.integer, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    algorithm,
    subject,
    sequence(time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(EXTENSIONS, sequence(sequence(oid(SUBJECT_ALT_NAME), der(TAG.octetString, altName)))),
  );
  const signature = der(TAG.bitString, Buffer.concat([Buffer.of(0), sign('sha256', body, privateKey)]));
  const base64 = sequence(body, algorithm, signature).toString('base64');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
  };
}

/** @param {number} tag @param {...Buffer} contents */
function der(tag, ...contents) {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}

/** @param {...Buffer} contents */
const sequence = (...contents) => der(TAG.sequence, ...contents);

/** @param {string} hex */
const oid = hex => der(TAG.oid, Buffer.from(hex, 'hex'));

/** @param {number} ms @returns {Buffer} YYMMDDHHMMSSZ */
const time = ms =>
  der(TAG.utcTime, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, '').slice(2, 14)}Z`));
