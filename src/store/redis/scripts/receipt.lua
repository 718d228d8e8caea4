-- Before scripts that tell a receipt something: lines, each the JSON of an event (events.rs).
-- KEYS: 12 the receipts, where the claim keeps one.

local function reserved(number, at)
  return '{"reserved":{"number":' .. int(number) .. ',"at":"' .. at .. '"}}\n'
end

-- What is not kept any more is told nothing.
local function tell(receipt, lines)
  local told = redis.call('HGET', KEYS[12], receipt)
  if told then redis.call('HSET', KEYS[12], receipt, told .. lines) end
end
