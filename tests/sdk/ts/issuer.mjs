// A certified OpenID provider as the issuer: client credentials, resource indicators (RFC 8707), JWT
// access tokens (RFC 9068) and opaque ones, introspection, revocation, keys that rotate.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const KEYS = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  PS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: () => generateKeyPairSync('ed25519')
};

function key(alg) {
  const jwk = KEYS[alg]().privateKey.export({ format: 'jwk' });
  return { ...jwk, alg, use: 'sig', kid: `${alg}-${Math.random()}` };
}

const client = (id, grants) => ({
  client_id: id,
  client_secret: `secret-of-${id}`,
  grant_types: grants,
  redirect_uris: [],
  response_types: []
});

function provider(issuer, alg, resources) {
  return new Provider(issuer, {
    clients: [
      client('agent', ['client_credentials']),
      client('other', ['client_credentials']),
      client('gateway', [])
    ],
    jwks: { keys: [key(alg), ...(alg === 'RS256' ? [] : [key('RS256')])] },
    scopes: ['mcp:call', 'mcp:read'],
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'EdDSA'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, asking) => asking.clientId === 'gateway' },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          scope: 'mcp:call mcp:read',
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: resources.get(resource) ?? 'jwt',
          jwt: { sign: { alg } }
        })
      }
    }
  });
}

// An issuer whose tokens are signed with `alg`; `rotate` gives it new keys.
export async function issuer(test, alg = 'RS256') {
  let handle = () => {};
  const server = createServer((request, response) => handle(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${server.address().port}`;
  const formats = new Map();
  const rotate = () => {
    handle = provider(url, alg, formats).callback();
  };
  rotate();
  const post = async (path, form, id) => {
    const credential = Buffer.from(`${id}:secret-of-${id}`).toString('base64');
    const headers = { authorization: `Basic ${credential}` };
    const answer = await fetch(url + path, { method: 'POST', headers, body: new URLSearchParams(form) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const token = async (resource, { id = 'agent', scope = 'mcp:call' } = {}) => {
    const form = { grant_type: 'client_credentials', resource, scope };
    return (await (await post('/token', form, id)).json()).access_token;
  };
  const opaque = resource => formats.set(resource, 'opaque');
  const revoke = (token, id = 'agent') => post('/token/revocation', { token }, id);
  return { url, token, rotate, opaque, revoke };
}
