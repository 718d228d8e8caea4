-- Before scripts that tell a receipt something: lines, each the JSON of an event (events.rs).
-- KEYS: 12 the receipts, where the claim keeps one.

local function reserved(number, at)
  return '{"reserved":{"number":' .. int(number) .. ',"at":"' .. at .. '"}}\n'
end

-- A receipt whose lines have become too many says of them only how many attempts they told of.
local RECEIPT_BYTES = 32768
local function shortened(told)
  if #told <= RECEIPT_BYTES then return told end
  local function lines_of(event) return select(2, string.gsub(told, '\n{"' .. event .. '":', '')) end
  local before = string.match(told, '\n{"earlier":{"attempts":(%d+)}}') or 0
  local attempts = before + lines_of('reserved') - lines_of('untried')
  return string.match(told, '^[^\n]*\n') .. '{"earlier":{"attempts":' .. int(attempts) .. '}}\n'
end

-- What is not kept any more is told nothing.
local function tell(receipt, lines)
  local told = redis.call('HGET', KEYS[12], receipt)
  if told then redis.call('HSET', KEYS[12], receipt, told .. lines) end
end
