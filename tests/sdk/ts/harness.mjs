// The built gateway in front of real MCP servers.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const PATIENCE_MS = 60_000;

const required = name => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run scripts/test`);
  return value;
};

export async function eventually(what, probe) {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline) {
    const value = await probe();
    if (value) return value;
    await delay(20);
  }
  throw new Error(`waited in vain for ${what}`);
}

// A child whose output is collected line by line; it is killed when the test ends.
export function start(test, command, args, env = {}) {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env }
  });
  const lines = [];
  for (const pipe of [child.stdout, child.stderr]) {
    createInterface({ input: pipe }).on('line', line => lines.push(line));
  }
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  test.after(stop);
  const waitFor = pattern =>
    eventually(String(pattern), () => {
      if (child.exitCode !== null) throw new Error(lines.join('\n'));
      return lines.map(line => line.match(pattern)).find(Boolean);
    });
  return { lines, waitFor, stop };
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

const answers = port =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1');
    const end = value => {
      socket.destroy();
      resolve(value);
    };
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });

async function startServer(test, command, args, env) {
  const port = await freePort();
  start(test, command, args(port), env(port));
  await eventually(`port ${port}`, () => answers(port));
  return `http://127.0.0.1:${port}/mcp`;
}

// The official server, every tool reply of which is an event stream.
export function everything(test) {
  const script = join('node_modules', '@modelcontextprotocol', 'server-everything', 'dist', 'index.js');
  return startServer(test, process.execPath, () => [script, 'streamableHttp'], port => ({ PORT: String(port) }));
}

// A server of the official Python SDK, of both protocol eras, whose tool has a side effect.
export function ledger(test) {
  const script = join(required('ONCEWARD_SDK_TESTS'), 'python', 'ledger_server.py');
  return startServer(test, required('ONCEWARD_PYTHON'), port => [script, String(port)], () => ({}));
}

// The gateway with a static principal, fit for clients that number every request anew; `change`
// takes its policy and its URL, and gives variables of its environment. Further `documents` lie beside
// the policy.
export async function gateway(test, upstream, change, documents = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-'));
  test.after(() => rm(folder, { recursive: true }));
  const policy = {
    schema_version: 'v1',
    server: { name: 'tools', namespace: 'sdk', uid: 'uid-sdk', path: '/mcp', upstream },
    auth: { mode: 'static', human_id: 'alice' },
    policy: { mode: 'observe' },
    idempotency: {
      fingerprint: 'call',
      streams: 'record',
      key_pointers: ['/params/_meta/com.example~1idempotency-key']
    }
  };
  const port = change ? await freePort() : 0;
  const env = change?.(policy, `http://127.0.0.1:${port}/mcp`);
  const policies = join(folder, 'policies');
  await mkdir(policies);
  for (const [name, document] of Object.entries({ policy, ...documents })) {
    await writeFile(join(policies, `${name}.json`), JSON.stringify(document));
  }
  const config = join(folder, 'onceward.toml');
  await writeFile(
    config,
    `[listen]\nmcp = "127.0.0.1:${port}"\nadmin = "127.0.0.1:0"\n[policy]\npath = ${JSON.stringify(policies)}\n`
  );
  const child = start(test, required('ONCEWARD_BIN'), ['serve', '--config', config], { NO_COLOR: '1', ...env });
  const ready = await child.waitFor(/mcp=(\S+:\d+).*admin=(\S+:\d+)/);
  return { url: `http://${ready[1]}/mcp`, admin: `http://${ready[2]}` };
}

// How often each idempotency outcome has happened.
export async function outcomes({ admin }) {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const pattern = /^mcp_gateway_idempotency_total\{[^}]*outcome="(\w+)"[^}]*\} (\d+)/gm;
  const counts = [...text.matchAll(pattern)].map(([, name, count]) => [name, Number(count)]);
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

// A connected client; `mode` says how it negotiates the protocol revision.
export async function connected(test, url, mode, options = {}) {
  const client = new Client({ name: 'sdk-test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  test.after(() => client.close());
  return client;
}

// The `error.data` of a refusal that the client reports as an HTTP failure or as a JSON-RPC error.
export function refusal(error) {
  if (error?.data?.reason) return error.data;
  const text = error?.data?.text ?? error?.message ?? '';
  return JSON.parse(text.slice(text.indexOf('{'))).error.data;
}
