-- Settles a claim with its reply; a lapsed claim too, while its tombstone stands.
-- ARGV: 8 status, 9 content type after a letter, or nothing, 10 body.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until')
if record[2] ~= ticket then return answer('stale') end
if record[1] == 'completed' then return answer('done') end
if record[1] ~= 'flying' or now >= tonumber(record[3]) + tombstone_ttl then return answer('stale') end

redis.call('HSET', KEYS[1], 'state', 'completed', 'until', int(now + ttl),
  'status', ARGV[8], 'type', ARGV[9], 'body', ARGV[10])
collect_after(KEYS[1], now + ttl)
tick()
leave_flight()
for level = 1, 3 do add(completed(level), level, now, now + ttl) end
return answer('done', now)
