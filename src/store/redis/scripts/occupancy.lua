-- What a domain holds now.

local function count(set, above, below)
  return redis.call('ZCOUNT', set, '(' .. int(above), below or '+inf')
end
local report = answer('occupancy')
report[6] = count(flying(3), now)
report[7] = count(completed(3), now - ttl)
report[8] = count(tombstones(3), now) + count(flying(3), now - tombstone_ttl, int(now))
report[9] = tonumber(redis.call('HGET', KEYS[2], 'evictions') or 0)
report[10] = domain[3] or ''
return report
