/** A hint can be typed as it is, with npm or without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownCommand } from '../../../src/cli/own-command.js';

test('the hint is what the operator can type', () => {
  assert.equal(ownCommand('host list', {}), 'pgsluice host list');
  assert.equal(ownCommand('host list', { npm_lifecycle_event: 'test' }), 'pgsluice host list');
  for (const event of ['start', 'pgsluice']) {
    assert.equal(ownCommand('host list', { npm_lifecycle_event: event }), 'npm run pgsluice -- host list');
    assert.equal(ownCommand('start', { npm_lifecycle_event: event }), 'npm start');
  }
});
