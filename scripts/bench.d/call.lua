-- What wrk sends: `tools/call` requests of about 250 bytes, as a client of an MCP server sends them.
--
--     wrk … -s call.lua URL -- MODE NONCE TOKENS
--
-- MODE     unkeyed    no key
--          first      a key of its own for every request
--          replay     one key and one body for each caller: its first request fills the slot
--          conflict   the key that `replay` fills, under another body
-- NONCE    tells the keys of one run from those of another
-- TOKENS   bearer tokens, separated by commas; the callers take turns

local threads = 0

function setup(thread)
  thread:set("thread_id", threads)
  threads = threads + 1
end

local function body(amount)
  return '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"charge","arguments":'
    .. '{"customer":"cus_4QJ0b1mYxYpT2a","amount_minor":' .. amount .. ',"currency":"EUR",'
    .. '"memo":"order 2026-11-30/000815, two items, express delivery"},'
    .. '"_meta":{"progressToken":"p-7"}}}'
end

local function head(token)
  return "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\n"
    .. "User-Agent: bench/1.0\r\nAccept: application/json, text/event-stream\r\n"
    .. "Content-Type: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\n"
    .. "Authorization: Bearer " .. token .. "\r\n"
end

local function tail(text)
  return "Content-Length: " .. #text .. "\r\n\r\n" .. text
end

local ready = {}  -- whole requests, one for each caller
local heads = {}  -- where every request has a key of its own: what stands before the key
local rest        -- and what stands after it
local turn = 0

local function unique()
  turn = turn + 1
  return heads[turn % #heads + 1] .. turn .. rest
end

local function prepared()
  turn = turn + 1
  return ready[turn % #ready + 1]
end

function init(args)
  local mode, nonce, tokens = args[1], args[2], args[3]
  local text = body(mode == "conflict" and 995 or 1250)
  for token in tokens:gmatch("[^,]+") do
    local key = "Idempotency-Key: " .. nonce
    heads[#heads + 1] = head(token) .. key .. "-" .. thread_id .. "-"
    local line = mode == "unkeyed" and "" or key .. "\r\n"
    ready[#ready + 1] = head(token) .. line .. tail(text)
  end
  rest = "\r\n" .. tail(text)
  request = mode == "first" and unique or prepared
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"statuses":%d,"broken":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
