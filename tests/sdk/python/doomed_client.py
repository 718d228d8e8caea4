"""A client that is killed in mid-call. Usage: doomed_client.py URL MODE TOOL KEY ARGUMENTS

Prints `progress` at the first sign that the tool runs, and waits for its end.
"""

import asyncio
import json
import sys

from conftest import KEY_MEMBER
from mcp import Client


async def main(url, mode, tool, key, arguments):
    async def progress(*_):
        print("progress", flush=True)

    async with Client(url, mode=mode) as client:
        await client.call_tool(
            tool, json.loads(arguments), progress_callback=progress, meta={KEY_MEMBER: key}
        )
        print("finished", flush=True)


asyncio.run(main(*sys.argv[1:]))
