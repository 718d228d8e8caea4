// Mode `oauth` with a certified issuer: plain requests, and the official client that finds its way
// from the gateway's challenge to a token.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { ClientCredentialsProvider } from '@modelcontextprotocol/client';
import { connected, eventually, everything, gateway, outcomes } from './harness.mjs';
import { issuer } from './issuer.mjs';

const CALL = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', arguments: { message: 'hello' } }
};

// A gateway that takes the issuer's tokens.
const guarded = (t, upstream, { url }, more = {}) =>
  gateway(t, upstream, (policy, resource) => {
    policy.auth = { mode: 'oauth', issuer_url: url, resource, scopes: ['mcp:call'], ...more };
    policy.policy = { default_decision: 'allow' };
    return { ISSUER_SECRET: 'secret-of-gateway' };
  });

async function call(onceward, token, key) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(token && { authorization: `Bearer ${token}` }),
    ...(key && { 'idempotency-key': key })
  };
  const answer = await fetch(onceward.url, { method: 'POST', headers, body: JSON.stringify(CALL) });
  const body = await answer.text();
  const reason = answer.status < 400 ? undefined : JSON.parse(body).error?.data?.reason;
  return { status: answer.status, reason, replayed: answer.headers.get('idempotency-replayed') === 'true', body };
}

// A tool whose every call answers, so that what is tested is the way to it.
async function upstream(t) {
  const seen = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: [] } }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, seen };
}

for (const alg of ['RS256', 'PS256', 'ES256', 'EdDSA']) {
  test(`${alg}: a refreshed token replays, keys rotate, another resource's token is refused`, async t => {
    const as = await issuer(t, alg);
    const tool = await upstream(t);
    const onceward = await guarded(t, tool.url, as);
    const [first, second] = [await as.token(onceward.url), await as.token(onceward.url)];
    assert.notEqual(first, second);
    assert.equal((await call(onceward, first, 'K1')).status, 200);
    assert.ok((await call(onceward, second, 'K1')).replayed);
    const other = await call(onceward, await as.token(onceward.url, { id: 'other' }), 'K1');
    assert.deepEqual([other.status, other.replayed], [200, false]);

    const elsewhere = await call(onceward, await as.token('https://other.example/mcp'));
    assert.deepEqual([elsewhere.status, elsewhere.reason], [401, 'token_audience_mismatch']);
    const narrow = await call(onceward, await as.token(onceward.url, { scope: 'mcp:read' }));
    assert.deepEqual([narrow.status, narrow.reason], [403, 'insufficient_scope']);

    as.rotate();
    const rotated = await as.token(onceward.url);
    const replay = await eventually('the new keys', async () => {
      const answer = await call(onceward, rotated, 'K1');
      return answer.status === 200 && answer;
    });
    assert.ok(replay.replayed);
    const old = await call(onceward, first, 'K1');
    assert.deepEqual([old.status, old.reason], [401, 'token_key_unknown']);

    assert.equal(tool.seen.length, 2);
    for (const headers of tool.seen) assert.equal(headers.authorization, undefined);
    assert.equal(tool.seen[0]['x-mcp-human-id'], 'agent');
  });
}

test('an opaque token is introspected, and revoked', async t => {
  const as = await issuer(t);
  const tool = await upstream(t);
  const onceward = await guarded(t, tool.url, as, {
    introspection: { client_id: 'gateway', client_secret: 'env:ISSUER_SECRET', cache: '1ms' }
  });
  as.opaque(onceward.url);
  const token = await as.token(onceward.url);
  assert.doesNotMatch(token, /\./);
  assert.equal((await call(onceward, token, 'K1')).status, 200);
  assert.ok((await call(onceward, await as.token(onceward.url), 'K1')).replayed);
  await as.revoke(token);
  const revoked = await eventually('the revocation', async () => {
    const answer = await call(onceward, token, 'K1');
    return answer.status !== 200 && answer;
  });
  assert.deepEqual([revoked.status, revoked.reason], [401, 'token_inactive']);
  const unknown = await call(onceward, 'never-issued');
  assert.deepEqual([unknown.status, unknown.reason], [401, 'token_inactive']);
  assert.equal(tool.seen.length, 1);
});

for (const mode of ['legacy', 'auto']) {
  test(`everything, ${mode}: the official client finds the issuer by the challenge`, async t => {
    const as = await issuer(t);
    const onceward = await guarded(t, await everything(t), as);
    const authProvider = () =>
      new ClientCredentialsProvider({
        clientId: 'agent',
        clientSecret: 'secret-of-agent',
        expectedIssuer: as.url
      });
    const toggle = { name: 'toggle-simulated-logging', arguments: {} };
    const keyed = { headers: { 'Idempotency-Key': 'K1' } };
    const one = await connected(t, onceward.url, mode, { authProvider: authProvider() });
    assert.match((await one.callTool(toggle, keyed)).content[0].text, /^Started/);
    // Another process of the same client has a token of its own, and meets the same record.
    const two = await connected(t, onceward.url, mode, { authProvider: authProvider() });
    await eventually('the replay', () =>
      two.callTool(toggle, keyed).then(
        result => /^Started/.test(result.content[0].text),
        error => {
          assert.match(JSON.stringify(error.data ?? error.message), /idempotency_in_flight/);
          return false;
        }
      )
    );
    const { in_flight, ...settled } = await outcomes(onceward);
    assert.deepEqual(settled, { first: 1, replay: 1 });
  });
}
