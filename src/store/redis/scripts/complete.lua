-- Settles a claim with its reply; a lapsed claim too, while its tombstone stands.
-- ARGV: 9 status, 10 content type after a letter, or nothing, 11 body,
-- 12 route or nothing.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until')
if record[2] ~= ticket then return answer('stale') end
if record[1] == 'completed' then return answer('done') end
if record[1] ~= 'flying' or now >= tonumber(record[3]) + tombstone_ttl then return answer('stale') end

redis.call('HSET', KEYS[1], 'state', 'completed', 'until', int(now + ttl),
  'status', ARGV[9], 'type', ARGV[10], 'body', ARGV[11])
if ARGV[12] ~= '' then redis.call('HSET', KEYS[1], 'route', ARGV[12]) end
collect_after(KEYS[1], now + ttl)
tick()
leave_flight()
for level = 1, 3 do add(completed(level), level, now, now + ttl) end
return answer('done', now)
