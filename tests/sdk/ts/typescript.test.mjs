// The official TypeScript client through the gateway.
//
// It numbers every request anew, so the policy says `fingerprint: call`; the key is a header of the
// one call, `callTool(params, { headers })`.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connected, everything, gateway, ledger, outcomes, refusal, start } from './harness.mjs';

const MODES = ['legacy', 'auto'];
const keyed = key => ({ headers: { 'Idempotency-Key': key } });
const text = result => {
  assert.ok(!result.isError, JSON.stringify(result));
  return result.content[0].text;
};

// Repeats a call until it is no longer in flight; gives the result and how often it came too early.
// That takes a moment also after the result has arrived, where that is an event of a stream: the
// call ends with the stream.
async function settled(client, params, options) {
  for (let refusals = 0; ; refusals += 1) {
    try {
      return { result: text(await client.callTool(params, options)), refusals };
    } catch (error) {
      const { reason, advice } = refusal(error);
      assert.deepEqual([reason, advice], ['idempotency_in_flight', 'retry_same_key']);
      await delay(50);
    }
  }
}

// The outcomes without the refusals of retries that came too early.
async function settledOutcomes(onceward) {
  const { in_flight, ...others } = await outcomes(onceward);
  return others;
}

for (const [name, server] of Object.entries({ everything, ledger })) {
  for (const mode of MODES) {
    test(`${name}, ${mode}: tools are listed as without the gateway`, async t => {
      const upstream = await server(t);
      const { url } = await gateway(t, upstream);
      const seen = [];
      for (const target of [url, upstream]) {
        const client = await connected(t, target, mode);
        const { tools } = await client.listTools();
        seen.push([client.getNegotiatedProtocolVersion(), tools.map(tool => tool.name)]);
      }
      assert.deepEqual(seen[0], seen[1]);
      const modern = mode === 'auto' && server === ledger;
      assert.equal(seen[0][0], modern ? '2026-07-28' : '2025-11-25');
    });
  }
}

for (const mode of MODES) {
  test(`ledger, ${mode}: the same key replays and no key runs again`, async t => {
    const onceward = await gateway(t, await ledger(t));
    const client = await connected(t, onceward.url, mode);
    const charge = { name: 'charge', arguments: { amount: 10 } };
    assert.equal(text(await client.callTool(charge, keyed('K1'))), 'charge 1');
    assert.equal((await settled(client, charge, keyed('K1'))).result, 'charge 1');
    assert.equal(text(await client.callTool(charge)), 'charge 2');
    assert.equal(text(await client.callTool(charge, keyed('K2'))), 'charge 3');
    await assert.rejects(
      client.callTool({ name: 'charge', arguments: { amount: 11 } }, keyed('K1')),
      error => refusal(error).reason === 'idempotency_key_conflict'
    );
    assert.equal(text(await client.callTool({ name: 'count', arguments: {} })), '3');
    assert.deepEqual(await settledOutcomes(onceward), { first: 2, replay: 1, conflict: 1 });
  });

  test(`ledger, ${mode}: a key in _meta does the same`, async t => {
    const onceward = await gateway(t, await ledger(t));
    const client = await connected(t, onceward.url, mode);
    const charge = {
      name: 'charge',
      arguments: { amount: 10 },
      _meta: { 'com.example/idempotency-key': 'K1' }
    };
    assert.equal(text(await client.callTool(charge)), 'charge 1');
    assert.equal((await settled(client, charge)).result, 'charge 1');
    assert.deepEqual(await settledOutcomes(onceward), { first: 1, replay: 1 });
  });

  test(`everything, ${mode}: a toggle is toggled once`, async t => {
    const onceward = await gateway(t, await everything(t));
    const client = await connected(t, onceward.url, mode);
    const toggle = { name: 'toggle-simulated-logging', arguments: {} };
    const first = text(await client.callTool(toggle, keyed('K1')));
    assert.match(first, /^Started/);
    assert.equal((await settled(client, toggle, keyed('K1'))).result, first);
    assert.match(text(await client.callTool(toggle)), /^Stopped/);
    assert.deepEqual(await settledOutcomes(onceward), { first: 1, replay: 1 });
  });
}

test('everything: a stream passes event by event', async t => {
  const onceward = await gateway(t, await everything(t));
  const client = await connected(t, onceward.url, 'legacy');
  const events = [];
  let finished = false;
  let first;
  const begun = new Promise(resolve => {
    first = resolve;
  });
  const call = client.callTool(
    { name: 'trigger-long-running-operation', arguments: { duration: 2, steps: 4 } },
    {
      ...keyed('K1'),
      onprogress: ({ progress, total }) => {
        events.push([progress, total]);
        first();
      }
    }
  );
  call.finally(() => {
    finished = true;
  });
  await begun;
  assert.equal(finished, false, 'the tool is far from its end when its first event is here');
  assert.match(text(await call), /completed/);
  assert.deepEqual(events, [
    [1, 4],
    [2, 4],
    [3, 4],
    [4, 4]
  ]);
});

const SLOW = {
  everything: [everything, 'trigger-long-running-operation', { duration: 2, steps: 4 }, /completed/],
  ledger: [ledger, 'slow_charge', { amount: 10, steps: 4, step_seconds: 0.5 }, /^charge 1$/]
};

for (const [name, [server, tool, args, expected]] of Object.entries(SLOW)) {
  test(`${name}: a client killed in mid-call finds its result under the key`, async t => {
    const onceward = await gateway(t, await server(t));
    const doomed = start(t, process.execPath, ['doomed.mjs', onceward.url, 'auto', tool, 'K1', JSON.stringify(args)]);
    await doomed.waitFor(/^progress$/);
    await doomed.stop();
    assert.ok(!doomed.lines.includes('finished'));

    const client = await connected(t, onceward.url, 'auto');
    const { result, refusals } = await settled(client, { name: tool, arguments: args }, keyed('K1'));
    assert.match(result, expected);
    if (server === ledger) {
      assert.equal(text(await client.callTool({ name: 'count', arguments: {} })), '1');
    }
    const { in_flight = 0, ...others } = await outcomes(onceward);
    assert.equal(in_flight, refusals);
    assert.deepEqual(others, { first: 1, replay: 1 });
  });
}
