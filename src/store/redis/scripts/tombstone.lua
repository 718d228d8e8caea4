-- Settles a claim as a tombstone. ARGV: 9 the reason, `unknown` or `not_replayable`.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until')
if record[2] ~= ticket then return answer('stale') end
return entomb(record, ARGV[9])
