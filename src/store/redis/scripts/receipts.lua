-- Reads receipts that are kept, newest first.
-- KEYS: 12 the receipts, 13 their order.
-- ARGV: 9 the one that is asked for, or nothing; 10 how long they are kept, 11 the highest stamp,
-- as ZRANGE has it, 12 the most.

local kept_since = now - tonumber(ARGV[10])
local found
if ARGV[9] ~= '' then
  local stamp = tonumber(redis.call('ZSCORE', KEYS[13], ARGV[9]) or kept_since)
  found = stamp > kept_since and {ARGV[9], stamp} or {}
else
  found = redis.call('ZRANGE', KEYS[13], ARGV[11], '(' .. int(kept_since), 'BYSCORE', 'REV',
    'LIMIT', 0, ARGV[12], 'WITHSCORES')
end

local page = answer('receipts')
for place = 1, #found, 2 do
  page[#page + 1] = found[place]
  page[#page + 1] = tonumber(found[place + 1])
  page[#page + 1] = redis.call('HGET', KEYS[12], found[place]) or ''
end
return page
