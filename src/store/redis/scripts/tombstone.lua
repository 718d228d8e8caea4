-- Settles a claim as a tombstone. ARGV: 9 the reason, `unknown` or `not_replayable`.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until')
if record[2] ~= ticket then return answer('stale') end
if record[1] == ARGV[9] then return answer('done') end
if record[1] ~= 'flying' then return answer('stale') end
local ends = tonumber(record[3])
if now >= ends then
  -- It lapsed: that is a tombstone already, of an unknown outcome.
  local repeats = ARGV[9] == 'unknown' and now < ends + tombstone_ttl
  return answer(repeats and 'done' or 'stale')
end

redis.call('HSET', KEYS[1], 'state', ARGV[9], 'until', int(now + tombstone_ttl))
collect_after(KEYS[1], now + tombstone_ttl)
tick()
leave_flight()
for level = 1, 3 do
  add(tombstones(level), level, now + tombstone_ttl, now + tombstone_ttl)
end
return answer('done', now)
