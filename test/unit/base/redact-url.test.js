// Passwords in URLs, in well-formed and in wrong ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { redactUrl, redactUrlsIn } from '../../../src/base/redact-url.js';

test('the password is replaced and the rest stays', () => {
  /** @type {[string, string][]} */
  const cases = [
    [
      'postgres://user:secret@host:5432/db?sslmode=require',
      'postgres://user:***@host:5432/db?sslmode=require',
    ],
    ['postgresql://user:s%40cret@[::1]:5432/db', 'postgresql://user:***@[::1]:5432/db'],
    ['postgres://:secret@host/db', 'postgres://:***@host/db'],
    ['postgres://host/db?user=u&password=secret&a=b', 'postgres://host/db?user=u&password=***&a=b'],
    [
      'postgres:///db?host=/run/postgresql&sslpassword=secret',
      'postgres:///db?host=/run/postgresql&sslpassword=***',
    ],
  ];
  for (const [url, shown] of cases) assert.equal(redactUrl(url), shown);
});

test('what holds no password stays as it is', () => {
  for (const url of [
    'embedded',
    '',
    'postgres://host/db',
    'postgres://user@host:5432/db',
    'postgres://user@[::1]:5432/db',
    'postgres:///db?host=/run/postgresql',
  ]) {
    assert.equal(redactUrl(url), url);
    assert.equal(redactUrlsIn(url), url);
  }
});

test('a wrong URL does not show its password either', () => {
  for (const url of [
    'postgres://user:se@cret@host/db',
    'postgres://user:se/cret@host/db',
    'postgres://user:12/secret@host/db',
    'postgres://user:se?cret@host/db',
    'postgres://user:se#cret@host/db',
    'postgres://user:se cret@host:port/db',
    'postgres//user:secret@host',
    'postgres:user:secret@host',
    'user:secret@host',
    ' postgres://user:secret@host',
    "host=h password='se cret'",
    "host=h password=''se'x'cret",
    'host=h password = secret user=u',
  ]) {
    const shown = redactUrl(url);
    assert.doesNotMatch(shown, /cret|se[ /?#@]/, shown);
    assert.match(shown, /\*\*\*/);
  }
});

test('a password without "@" is never in what is shown of its URL, alone or in a text', () => {
  const password = fc.string({ minLength: 1 }).map(tail => `Secret${tail.replaceAll(/[\s@]/g, '')}Word`);
  fc.assert(
    fc.property(password, fc.constantFrom('postgres', 'postgresql', 'https', 'ssh'), (word, scheme) => {
      const url = `${scheme}://user:${word}@host/db`;
      assert.equal(redactUrl(url), `${scheme}://user:***@host/db`);
      assert.equal(redactUrlsIn(`cannot reach ${url} now`), `cannot reach ${scheme}://user:***@host/db now`);
    }),
  );
});

test('every URL of a text is redacted', () => {
  assert.equal(
    redactUrlsIn('from postgres://a:one@h1/x to postgres://b:two@h2/y, password=three mail me@example.org'),
    'from postgres://a:***@h1/x to postgres://b:***@h2/y, password=*** mail me@example.org',
  );
});

test('redacting twice changes nothing more', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (user, password) => {
      const once = redactUrlsIn(`x postgres://${user}:${password}@h password=${password}`);
      assert.equal(redactUrlsIn(once), once);
    }),
  );
});

test('a very long value is redacted too', () => {
  const long = 'x'.repeat(5_000_000);
  assert.equal(redactUrlsIn(`password=${long}&a=b`), 'password=***&a=b');
  assert.equal(redactUrlsIn(`password='${long}' x`), 'password=***');
  assert.equal(redactUrlsIn(`postgres://u:${long}@h`), 'postgres://u:***@h');
});
