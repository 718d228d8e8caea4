-- Settles a claim with its reply; a lapsed claim too, while its tombstone stands.
-- ARGV: 12 status, 13 content type after a letter, or nothing, 14 body, 15 route or nothing.

if not own then return answer('stale') end
if state == 'completed' then return answer('done') end
if state ~= 'flying' or now >= ends + tombstone_ttl then return answer('stale') end

redis.call('HSET', KEYS[1], 'state', 'completed', 'until', int(now + ttl),
  'status', ARGV[12], 'type', ARGV[13], 'body', ARGV[14])
if ARGV[15] ~= '' then redis.call('HSET', KEYS[1], 'route', ARGV[15]) end
collect_after(KEYS[1], now + ttl)
tick()
leave_flight()
for level = 1, 3 do add(completed(level), level, now, now + ttl) end
tell_end('completed')
return answer('done', now)
