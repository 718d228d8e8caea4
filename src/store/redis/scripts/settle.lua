-- Before scripts that settle.
-- ARGV: 9 how attempts ended, as lines for the receipt, 10 the time for it, 11 the number of
-- the attempt that was given up: it is taken back, and its number goes to the next, unless it was never
-- reserved. 0 is the last one, whatever its number. Or nothing.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until', 'attempts', 'receipt', 'again')
local state, own, ends = record[1], record[2] == ticket, tonumber(record[3])
local attempts, given_up = tonumber(record[4] or 1), tonumber(ARGV[11])
local untried = given_up == 0 or given_up == attempts

local function tell_end(outcome)
  if not (record[5] and KEYS[12]) then return end
  local lines = ARGV[9]
  if untried then lines = lines .. '{"untried":{"number":' .. int(attempts) .. '}}\n' end
  tell(record[5], lines .. '{"settled":{"outcome":"' .. outcome .. '","at":"' .. ARGV[10] .. '"}}\n')
end

local function entomb(reason)
  if state == reason then return answer('done') end
  if state ~= 'flying' then return answer('stale') end
  if now >= ends then
    -- It lapsed: that is a tombstone already, of an unknown outcome.
    if reason ~= 'unknown' or now >= ends + tombstone_ttl then return answer('stale') end
    -- This may be asked for twice, and an attempt be taken back but once.
    if not untried then tell_end(reason) end
    return answer('done')
  end

  redis.call('HSET', KEYS[1], 'state', reason, 'until', int(now + tombstone_ttl))
  if untried then redis.call('HSET', KEYS[1], 'attempts', int(attempts - 1)) end
  collect_after(KEYS[1], now + tombstone_ttl)
  tick()
  leave_flight()
  for level = 1, 3 do
    add(tombstones(level), level, now + tombstone_ttl, now + tombstone_ttl)
  end
  tell_end(reason)
  return answer('done', now)
end
