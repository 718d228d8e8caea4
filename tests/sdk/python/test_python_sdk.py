"""The official Python client through the gateway.

It numbers every request anew and cannot set a header for one call, so the key travels in `_meta`
and the policy says `fingerprint: call` and `key_pointers`.
"""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from conftest import KEY_MEMBER, Process, everything, ledger
from mcp import Client, MCPError

EVERY_MODE = ["legacy", "auto"]


def text(result):
    assert not result.is_error, result
    return result.content[0].text


def keyed(key):
    return {KEY_MEMBER: key}


def settled_outcomes(gateway):
    """The outcomes without the refusals of retries that came too early."""
    outcomes = gateway.outcomes()
    outcomes.pop("in_flight", None)
    return outcomes


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def until_settled(client, tool, arguments, key):
    """Repeats a keyed call until it is no longer in flight.

    That takes a moment also after the result has arrived, where that is an event of a stream: the
    call ends with the stream.
    """
    refusals = 0
    while True:
        try:
            return refusals, text(await client.call_tool(tool, arguments, meta=keyed(key)))
        except MCPError as error:
            assert error.data["reason"] == "idempotency_in_flight", error
            assert error.data["advice"] == "retry_same_key"
            refusals += 1
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_tools_are_listed_as_without_the_gateway(any_server, gateway_for, mode):
    gateway = gateway_for(any_server)

    async def names(url):
        async with Client(url, mode=mode) as client:
            tools = (await client.list_tools()).tools
            return client.session.protocol_version, [tool.name for tool in tools]

    negotiated, tools = run(names(gateway.url))
    assert (negotiated, tools) == run(names(any_server))
    modern = mode == "auto" and "charge" in tools
    assert negotiated == ("2026-07-28" if modern else "2025-11-25")


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_the_same_key_replays_and_no_key_runs_again(gateway_for, mode):
    with ledger() as upstream:
        gateway = gateway_for(upstream)

        async def scenario():
            async with Client(gateway.url, mode=mode) as client:
                charge = {"amount": 10}
                first = text(await client.call_tool("charge", charge, meta=keyed("K1")))
                _, again = await until_settled(client, "charge", charge, "K1")
                plain = text(await client.call_tool("charge", charge))
                other = text(await client.call_tool("charge", charge, meta=keyed("K2")))
                with pytest.raises(MCPError) as conflict:
                    await client.call_tool("charge", {"amount": 11}, meta=keyed("K1"))
                count = text(await client.call_tool("count", {}))
            return first, again, plain, other, conflict.value.data["reason"], count

        assert run(scenario()) == (
            "charge 1",
            "charge 1",
            "charge 2",
            "charge 3",
            "idempotency_key_conflict",
            "3",
        )
        assert settled_outcomes(gateway) == {"first": 2, "replay": 1, "conflict": 1}


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_toggle_of_the_official_server_is_toggled_once(gateway_for, mode):
    with everything() as upstream:
        gateway = gateway_for(upstream)

        async def scenario():
            async with Client(gateway.url, mode=mode) as client:
                toggle = "toggle-simulated-logging"
                first = text(await client.call_tool(toggle, {}, meta=keyed("K1")))
                _, again = await until_settled(client, toggle, {}, "K1")
                plain = text(await client.call_tool(toggle, {}))
            return first, again, plain

        first, again, plain = run(scenario())
        assert first.startswith("Started") and plain.startswith("Stopped")
        assert again == first
        assert settled_outcomes(gateway) == {"first": 1, "replay": 1}


def test_a_stream_passes_event_by_event(gateway_for):
    with everything() as upstream:
        gateway = gateway_for(upstream)

        async def scenario():
            seen = asyncio.Queue()

            async def progress(done, total, _message):
                await seen.put((done, total))

            async with Client(gateway.url) as client:
                call = asyncio.create_task(
                    client.call_tool(
                        "trigger-long-running-operation",
                        {"duration": 2, "steps": 4},
                        progress_callback=progress,
                        meta=keyed("K1"),
                    )
                )
                first = await seen.get()
                # The tool is far from its end when its first event is here.
                running = not call.done()
                result = text(await call)
                events = [first]
                while not seen.empty():
                    events.append(seen.get_nowait())
                return running, events, result

        running, events, result = run(scenario())
        assert running
        assert events == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert "completed" in result


def killed_in_mid_call(gateway, mode, tool, key, arguments):
    """Starts a call in a process of its own and kills that as soon as the tool runs."""
    script = Path(__file__).with_name("doomed_client.py")
    command = [sys.executable, str(script), gateway.url, mode, tool, key, json.dumps(arguments)]
    client = Process(command)
    client.wait_for("^progress$")
    client.stop()
    assert "finished" not in client.stdout


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_client_killed_in_mid_call_finds_its_result_under_the_key(gateway_for, mode):
    with ledger() as upstream:
        gateway = gateway_for(upstream)
        arguments = {"amount": 10, "steps": 4, "step_seconds": 0.5}
        killed_in_mid_call(gateway, mode, "slow_charge", "K1", arguments)

        async def retry():
            async with Client(gateway.url, mode=mode) as client:
                refusals, result = await until_settled(client, "slow_charge", arguments, "K1")
                return refusals, result, text(await client.call_tool("count", {}))

        refusals, result, count = run(retry())
        assert (result, count) == ("charge 1", "1")
        assert gateway.outcomes().get("in_flight", 0) == refusals
        assert settled_outcomes(gateway) == {"first": 1, "replay": 1}


def test_a_client_of_the_official_server_killed_in_mid_call_finds_its_result(gateway_for):
    with everything() as upstream:
        gateway = gateway_for(upstream)
        tool, arguments = "trigger-long-running-operation", {"duration": 2, "steps": 4}
        killed_in_mid_call(gateway, "auto", tool, "K1", arguments)

        async def retry():
            async with Client(gateway.url) as client:
                return await until_settled(client, tool, arguments, "K1")

        refusals, result = run(retry())
        assert "completed" in result
        assert gateway.outcomes().get("in_flight", 0) == refusals
        assert settled_outcomes(gateway) == {"first": 1, "replay": 1}
