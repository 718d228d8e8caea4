// The official TypeScript client at tools of the gateway's own, which call a vendor's plain HTTP API.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { connected, gateway, outcomes } from './harness.mjs';

const MODES = ['legacy', 'auto'];
const MEMBER = 'dev.onceward/idempotency-key';

// A vendor that keeps what it received, and numbers what it charged.
async function vendor(t) {
  const received = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    received.push({ line: `${request.method} ${request.url}`, headers: request.headers, body });
    response.writeHead(201, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: `ch_${received.length}` }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, received };
}

const CHARGE = {
  type: 'object',
  required: ['amount'],
  properties: { amount: { type: 'integer' }, note: { type: 'string' } }
};
const CUSTOMER = { type: 'object', required: ['customer'], properties: { customer: { type: 'string' } } };

const connector = base_url => ({
  schema_version: 'v1',
  kind: 'connector',
  name: 'shop',
  base_url,
  tools: [
    {
      name: 'charge',
      description: 'Charges a customer',
      input_schema: CHARGE,
      request: {
        method: 'POST',
        path: '/v1/charges',
        body: { json: { amount: '{amount}', note: 'for {note}' } }
      },
      effect: { side_effect: 'write', idempotency: { header: 'Idempotency-Key' } }
    },
    {
      name: 'balance',
      input_schema: CUSTOMER,
      request: { method: 'GET', path: '/v1/balances/{customer}' },
      effect: { side_effect: 'read' }
    },
    {
      name: 'close_account',
      input_schema: CUSTOMER,
      request: { method: 'DELETE', path: '/v1/accounts/{customer}' },
      effect: { side_effect: 'destructive' }
    }
  ]
});

// A native server in front of the vendor.
async function shop(t, keys) {
  const api = await vendor(t);
  const serve = policy => {
    delete policy.server.upstream;
    policy.server.connectors = ['shop'];
    policy.idempotency = { fingerprint: 'call', keys };
  };
  return { api, onceward: await gateway(t, undefined, serve, { shop: connector(api.url) }) };
}

const keyed = key => ({ headers: { 'Idempotency-Key': key } });

for (const mode of MODES) {
  test(`native, ${mode}: tools are listed with their schemas and what they do`, async t => {
    const { onceward } = await shop(t, 'optional');
    const client = await connected(t, onceward.url, mode);
    assert.equal(client.getNegotiatedProtocolVersion(), mode === 'auto' ? '2026-07-28' : '2025-11-25');
    const { tools } = await client.listTools();
    const found = Object.fromEntries(tools.map(tool => [tool.name, tool]));
    assert.deepEqual(Object.keys(found).sort(), ['balance', 'charge', 'close_account']);
    assert.deepEqual(found.charge.inputSchema, CHARGE);
    assert.equal(found.charge.description, 'Charges a customer');
    const hints = ({ annotations: { readOnlyHint, destructiveHint, idempotentHint } }) => [
      readOnlyHint,
      destructiveHint,
      idempotentHint
    ];
    assert.equal(hints(found.balance)[0], true);
    assert.deepEqual(hints(found.charge), [false, false, true]);
    assert.deepEqual(hints(found.close_account), [false, true, false]);
  });

  test(`native, ${mode}: a key is executed once and replayed`, async t => {
    const { api, onceward } = await shop(t, 'optional');
    const client = await connected(t, onceward.url, mode);
    const charge = { name: 'charge', arguments: { amount: 10, note: 'tea' } };
    const first = await client.callTool(charge, keyed('K1'));
    assert.deepEqual(first.structuredContent, { id: 'ch_1' });
    assert.deepEqual(JSON.parse(first.content[0].text), { id: 'ch_1' });
    const again = await client.callTool(charge, keyed('K1'));
    assert.deepEqual(again.structuredContent, { id: 'ch_1' });
    assert.equal(api.received.length, 1);
    const [{ line, headers, body }] = api.received;
    assert.deepEqual([line, body], ['POST /v1/charges', '{"amount":10,"note":"for tea"}']);
    assert.match(headers['idempotency-key'], /^idt_[0-9a-f]{32}$/);
    assert.deepEqual(await outcomes(onceward), { first: 1, replay: 1 });
    const plain = await client.callTool({ name: 'balance', arguments: { customer: 'a/b' } });
    assert.deepEqual(plain.structuredContent, { id: 'ch_2' });
    assert.equal(api.received[1].line, 'GET /v1/balances/a%2Fb');
  });

  test(`native, ${mode}: a minted key is told in _meta`, async t => {
    const { api, onceward } = await shop(t, 'always');
    const client = await connected(t, onceward.url, mode);
    const charge = { name: 'charge', arguments: { amount: 10 } };
    const first = await client.callTool(charge);
    const key = first._meta[MEMBER];
    assert.match(key, /^idt_[0-9a-f]{32}$/);
    const again = await client.callTool(charge, keyed(key));
    assert.deepEqual([again.structuredContent, again._meta[MEMBER]], [{ id: 'ch_1' }, key]);
    assert.equal(api.received.length, 1);
  });

  test(`native, ${mode}: arguments that the tool does not take are refused`, async t => {
    const { api, onceward } = await shop(t, 'optional');
    const client = await connected(t, onceward.url, mode);
    for (const args of [{}, { amount: 'ten' }, { amount: 1.5 }]) {
      await assert.rejects(client.callTool({ name: 'charge', arguments: args }, keyed('K1')));
    }
    await assert.rejects(client.callTool({ name: 'refund', arguments: {} }));
    assert.equal(api.received.length, 0);
  });
}
