"""The official Python client at tools of the gateway's own, which call a vendor's plain HTTP API."""

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import KEY_MEMBER
from mcp import Client, MCPError

EVERY_MODE = ["legacy", "auto"]
CHARGE = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "integer"}},
}


@contextlib.contextmanager
def vendor():
    """A vendor that keeps what it received, and numbers what it charged."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers.get("Idempotency-Key"), body.decode()))
            reply = json.dumps({"id": f"ch_{len(received)}"}).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()


def connector(base_url):
    return {
        "schema_version": "v1",
        "kind": "connector",
        "name": "shop",
        "base_url": base_url,
        "tools": [
            {
                "name": "charge",
                "input_schema": CHARGE,
                "request": {
                    "method": "POST",
                    "path": "/v1/charges",
                    "body": {"json": {"amount": "{amount}"}},
                },
                "effect": {
                    "side_effect": "write",
                    "idempotency": {"header": "Idempotency-Key"},
                },
            }
        ],
    }


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_native_tool_is_listed_called_and_replayed(gateway_for, mode):
    with vendor() as (url, received):
        gateway = gateway_for(None, connector(url))

        async def scenario():
            async with Client(gateway.url, mode=mode) as client:
                tool = (await client.list_tools()).tools[0]
                arguments, key = {"amount": 10}, {KEY_MEMBER: "K1"}
                first = await client.call_tool("charge", arguments, meta=key)
                again = await client.call_tool("charge", arguments, meta=key)
                with pytest.raises(MCPError) as refused:
                    await client.call_tool("charge", {"amount": "ten"}, meta=key)
                return client.session.protocol_version, tool, first, again, refused.value

        version, tool, first, again, refused = asyncio.run(asyncio.wait_for(scenario(), 120))
        assert version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert (tool.name, tool.input_schema) == ("charge", CHARGE)
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (
            False,
            False,
            True,
        )
        assert first.structured_content == again.structured_content == {"id": "ch_1"}
        assert not first.is_error
        assert refused.error.code == -32602
        [(path, key, body)] = received
        assert (path, body) == ("/v1/charges", '{"amount":10}')
        assert key.startswith("idt_") and len(key) == 36
        assert gateway.outcomes() == {"first": 1, "replay": 1}
