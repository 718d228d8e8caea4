// A client that is killed in mid-call. Usage: doomed.mjs URL MODE TOOL KEY ARGUMENTS
// Prints `progress` at the first sign that the tool runs, and waits for its end.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, mode, name, key, args] = process.argv.slice(2);
const client = new Client({ name: 'doomed', version: '1' }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.callTool(
  { name, arguments: JSON.parse(args) },
  { headers: { 'Idempotency-Key': key }, onprogress: () => console.log('progress') }
);
console.log('finished');
