"""An MCP server that remembers what it was made to do. Usage: ledger_server.py PORT"""

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("ledger")
charges: list[int] = []


@server.tool()
def charge(amount: int) -> str:
    """Charges an amount; every execution is one more charge."""
    charges.append(amount)
    return f"charge {len(charges)}"


@server.tool()
async def slow_charge(amount: int, steps: int, step_seconds: float, ctx: Context) -> str:
    """Charges at once and then takes its time, with progress."""
    charges.append(amount)
    number = len(charges)
    for step in range(1, steps + 1):
        await anyio.sleep(step_seconds)
        await ctx.report_progress(step, steps)
    return f"charge {number}"


@server.tool()
def count() -> int:
    """How many charges there were."""
    return len(charges)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
