-- Reserves the next attempt under a claim, which renews its lease too.
-- ARGV: 9 its number: only after the one before, and done where it is reserved already; 10 how
-- attempts ended, as lines for the receipt, 11 the time for it.

if not runs then return answer('stale') end
local number, attempts = tonumber(ARGV[9]), tonumber(record[4] or 1)
if attempts ~= number and attempts ~= number - 1 then return answer('stale') end

redis.call('HSET', KEYS[1], 'attempts', int(number))
renew()
if attempts < number and record[5] and KEYS[12] then
  tell(record[5], ARGV[10] .. reserved(number, ARGV[11]))
end
return answer('done', now)
