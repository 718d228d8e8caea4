-- Before scripts that may leave a tombstone.

-- Settles the claim of this ticket as one. `record`: its state, ticket and lease end.
local function entomb(record, reason)
  if record[1] == reason then return answer('done') end
  if record[1] ~= 'flying' then return answer('stale') end
  local ends = tonumber(record[3])
  if now >= ends then
    -- It lapsed: that is a tombstone already, of an unknown outcome.
    local repeats = reason == 'unknown' and now < ends + tombstone_ttl
    return answer(repeats and 'done' or 'stale')
  end

  redis.call('HSET', KEYS[1], 'state', reason, 'until', int(now + tombstone_ttl))
  collect_after(KEYS[1], now + tombstone_ttl)
  tick()
  leave_flight()
  for level = 1, 3 do
    add(tombstones(level), level, now + tombstone_ttl, now + tombstone_ttl)
  end
  return answer('done', now)
end
