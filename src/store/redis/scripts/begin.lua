-- Takes a free slot, or says what holds it.
-- ARGV: 8 hash, 9 not-after (server clock), 10 the highest stamp that the caller knows, 11 the
-- birth that it knows, 12 limits, 13-15 in-flight caps, 16 tombstone cap, 17-19 record caps (from
-- the inside out), 20- victims that may be evicted, by their domain members.
-- KEYS: 12- of each victim: its record, its scope's completed, its principal's completed.

local hash, limits = ARGV[8], ARGV[12]

if clock > tonumber(ARGV[9]) then return answer('late') end
if stored < tonumber(ARGV[10]) or (ARGV[11] ~= '' and ARGV[11] ~= domain[2]) then
  return answer('lost')
end

local function count(set, above) return redis.call('ZCOUNT', set, '(' .. int(above), '+inf') end

local function records(level, reply_age, tombstone_age)
  return count(flying(level), now - tombstone_age) + count(completed(level), now - reply_age)
    + count(tombstones(level), now)
end

if domain[3] and domain[3] ~= limits then
  -- Other limits hold for as long as a record stands that was counted under them.
  local old_ttl, old_tombstone_ttl = string.match(domain[3], '^ttl=(%d+) tombstone_ttl=(%d+) ')
  if records(3, tonumber(old_ttl) * 1000, tonumber(old_tombstone_ttl) * 1000) > 0 then
    local refusal = answer('limits')
    refusal[6] = domain[3]
    return refusal
  end
end

local record = redis.call('HMGET', KEYS[1], 'state', 'hash', 'ticket', 'until')
if record[1] then
  local state, ends = record[1], tonumber(record[4])
  local lapsed = state == 'flying' and now >= ends
  if now < ends or (lapsed and now < ends + tombstone_ttl) then
    if record[2] ~= hash then return answer('conflict') end
    if lapsed then return answer('unknown') end
    if state == 'flying' then
      return answer(record[3] == ticket and 'first' or 'in_flight')
    end
    if state == 'completed' then
      local reply = answer('replay')
      local stored_reply = redis.call('HMGET', KEYS[1], 'status', 'type', 'body')
      reply[6], reply[7], reply[8] = stored_reply[1], stored_reply[2], stored_reply[3]
      return reply
    end
    return answer(state)
  end
end

local function full(limit)
  local refusal = answer('capacity')
  refusal[6] = limit
  return refusal
end

-- What counts at any level is among what the domain's sets hold, expired or not: a cap above that is
-- not reached, whatever an exact count would give.
local function size(set) return redis.call('ZCARD', set) end
local most_flying = size(flying(3))
local most_held = most_flying + size(tombstones(3))
local most_records = most_held + size(completed(3))

for level, name in ipairs({'ScopeInFlight', 'PrincipalInFlight', 'StoreInFlight'}) do
  local cap = tonumber(ARGV[12 + level])
  if most_flying >= cap and count(flying(level), now) >= cap then return full(name) end
end
-- Tombstones of the scope: held, left by lapsed claims, and reserved by claims in flight.
local cap = tonumber(ARGV[16])
if most_held >= cap
  and count(tombstones(1), now) + count(flying(1), now - tombstone_ttl) >= cap then
  return full('ScopeTombstones')
end

local rest = {scope .. principal, principal, ''}
local evicted
for level, name in ipairs({'ScopeEntries', 'PrincipalEntries', 'StoreEntries'}) do
  local cap = tonumber(ARGV[16 + level])
  if most_records >= cap and records(level, ttl, tombstone_ttl) >= cap then
    local oldest = redis.call('ZRANGEBYSCORE', completed(level), '(' .. int(now - ttl), '+inf',
      'LIMIT', 0, 8)
    if #oldest == 0 then return full(name) end
    for place = 20, #ARGV do
      if ARGV[place] == oldest[1] .. rest[level] then evicted = place end
    end
    if not evicted then
      -- Their keys must be declared: the caller calls again with them.
      local request = answer('evict')
      for place, member in ipairs(oldest) do request[5 + place] = member .. rest[level] end
      return request
    end
    break
  end
end

if record[1] then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'flying', 'hash', hash, 'ticket', ticket,
  'until', int(now + lease))
collect_after(KEYS[1], now + lease + tombstone_ttl)
if evicted then
  local keys, member = 12 + 3 * (evicted - 20), ARGV[evicted]
  redis.call('DEL', KEYS[keys])
  redis.call('ZREM', KEYS[keys + 1], string.sub(member, 1, 32))
  redis.call('ZREM', KEYS[keys + 2], string.sub(member, 1, 64))
  redis.call('ZREM', completed(3), member)
  redis.call('HINCRBY', KEYS[2], 'evictions', 1)
end
tick()
if domain[3] ~= limits then redis.call('HSET', KEYS[2], 'limits', limits) end
if not domain[2] then
  domain[2] = ticket
  redis.call('HSET', KEYS[2], 'born', ticket)
end
for level = 1, 3 do
  add(flying(level), level, now + lease, now + lease + tombstone_ttl)
end

-- Two of each a begin on average, so that a backlog shrinks and no script grows with what has
-- expired: eight of each at every fourth, as the clock has it, since it is the looking that costs.
local function sweep(set, until_score)
  local gone = redis.call('ZRANGEBYSCORE', set, '-inf', int(until_score), 'LIMIT', 0, 8)
  if #gone > 0 then redis.call('ZREM', set, unpack(gone)) end
end
for level = 1, now % 4 == 0 and 3 or 0 do
  sweep(flying(level), now - tombstone_ttl)
  sweep(completed(level), now - ttl)
  sweep(tombstones(level), now)
end
return answer('first', now)
