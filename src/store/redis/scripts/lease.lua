-- Before scripts that put off the end of a lease. What has lapsed is not renewed: others were told
-- that it is unknown.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until', 'attempts', 'receipt')
local runs = record[2] == ticket and record[1] == 'flying' and now < tonumber(record[3])

local function renew()
  redis.call('HSET', KEYS[1], 'until', int(now + lease))
  collect_after(KEYS[1], now + lease + tombstone_ttl)
  tick()
  for level = 1, 3 do
    add(flying(level), level, now + lease, now + lease + tombstone_ttl)
  end
end
