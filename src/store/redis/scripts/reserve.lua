-- Reserves the next attempt under a claim, which renews its lease too. ARGV: 9 its number: only
-- after the one before, and done where it is reserved already.

if not runs then return answer('stale') end
local number, reserved = tonumber(ARGV[9]), tonumber(record[4] or 1)
if reserved ~= number and reserved ~= number - 1 then return answer('stale') end

redis.call('HSET', KEYS[1], 'attempts', int(number))
renew()
return answer('done', now)
