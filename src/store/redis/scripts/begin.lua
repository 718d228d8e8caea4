-- Takes a free slot, or one of an unknown outcome again where that is declared, or says what holds
-- it.
-- ARGV: 9 hash, 10 dispatch or nothing, 11 `free`, `open` or `always`: when a record of another
-- dispatch refuses, 12 `redispatch` or nothing, 13 not-after (server clock), 14 the highest stamp
-- that the caller knows, 15 the birth that it knows, 16 limits, 17-19 in-flight caps, 20 tombstone
-- cap, 21-23 record caps (from the inside out), 24 the receipt to open, or nothing, 25 its first line,
-- 26 the time of its first attempt, 27 how long receipts are kept, 28 how many, 29- victims that may
-- be evicted, by their domain members.
-- KEYS: 12 the receipts and 13 their order, where one is to be opened; then of each victim: its
-- record, its scope's completed, its principal's completed.

local hash, dispatch, pin, redispatch = ARGV[9], ARGV[10], ARGV[11], ARGV[12] == 'redispatch'
local limits, FIRST_VICTIM = ARGV[16], 29

if clock > tonumber(ARGV[13]) then return answer('late') end
if stored < tonumber(ARGV[14]) or (ARGV[15] ~= '' and ARGV[15] ~= domain[2]) then
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

local function first(attempt, after)
  local claim = answer('first', after)
  claim[6] = attempt
  return claim
end

local record = redis.call('HMGET', KEYS[1], 'state', 'hash', 'ticket', 'until', 'dispatch',
  'attempts', 'receipt')
local attempts, again = tonumber(record[6] or 1), false
if record[1] then
  local state, ends = record[1], tonumber(record[4])
  local lapsed = state == 'flying' and now >= ends
  if now < ends or (lapsed and now < ends + tombstone_ttl) then
    if record[2] ~= hash then return answer('conflict') end
    local own, flies = record[3] == ticket, state == 'flying' and not lapsed
    if own and flies then return first(attempts) end
    local other = (record[5] or '') ~= dispatch
    if other and (pin == 'always' or (pin == 'open' and state ~= 'completed')) then
      return answer('other_route')
    end
    if flies then return answer('in_flight') end
    if state == 'completed' then
      local reply = answer('replay')
      local stored_reply = redis.call('HMGET', KEYS[1], 'status', 'type', 'body', 'route')
      reply[6], reply[7], reply[8] = stored_reply[1], stored_reply[2], stored_reply[3]
      reply[9] = stored_reply[4] or ''
      return reply
    end
    -- A begin that claimed and heard of it too late takes nothing again.
    if state == 'not_replayable' or own or not redispatch then
      return answer(lapsed and 'unknown' or state)
    end
    if other then return answer('other_route') end
    again = true
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
  local cap = tonumber(ARGV[16 + level])
  if most_flying >= cap and count(flying(level), now) >= cap then return full(name) end
end
-- Tombstones of the scope: held, left by lapsed claims, and reserved by claims in flight. One that is
-- taken again turns into the reservation.
local cap = tonumber(ARGV[20])
if not again and most_held >= cap
  and count(tombstones(1), now) + count(flying(1), now - tombstone_ttl) >= cap then
  return full('ScopeTombstones')
end

-- The domain's member of a record, by its member at another level.
local outer = {scope .. principal, principal, ''}
local function in_domain(level, member)
  return string.sub(member, 1, 32 * level) .. outer[level] .. string.sub(member, 32 * level + 1)
end
local evicted
for level, name in ipairs({'ScopeEntries', 'PrincipalEntries', 'StoreEntries'}) do
  if again then break end
  local cap = tonumber(ARGV[20 + level])
  if most_records >= cap and records(level, ttl, tombstone_ttl) >= cap then
    local oldest = redis.call('ZRANGEBYSCORE', completed(level), '(' .. int(now - ttl), '+inf',
      'LIMIT', 0, 8)
    if #oldest == 0 then return full(name) end
    for place = FIRST_VICTIM, #ARGV do
      if ARGV[place] == in_domain(level, oldest[1]) then evicted = place end
    end
    if not evicted then
      -- Their keys must be declared: the caller calls again with them.
      local request = answer('evict')
      for place, member in ipairs(oldest) do request[5 + place] = in_domain(level, member) end
      return request
    end
    break
  end
end

-- A record that is taken again goes on with its receipt, while that is kept and no longer than this.
local RECEIPT_BYTES = 32768
local receipt, lines, goes_on = ARGV[24], ARGV[25], false
local receipt_ttl = tonumber(ARGV[27])
if receipt ~= '' and again and record[7] then
  local told = redis.call('HGET', KEYS[12], record[7])
  local opened = tonumber(redis.call('ZSCORE', KEYS[13], record[7]) or 0)
  goes_on = told and #told < RECEIPT_BYTES and opened > now - receipt_ttl
  if goes_on then receipt, lines = record[7], told end
end

if record[1] then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'flying', 'hash', hash, 'ticket', ticket,
  'until', int(now + lease))
if dispatch ~= '' then redis.call('HSET', KEYS[1], 'dispatch', dispatch) end
collect_after(KEYS[1], now + lease + tombstone_ttl)
if again then
  redis.call('HSET', KEYS[1], 'attempts', int(attempts + 1), 'again', 1)
  for level = 1, 3 do redis.call('ZREM', tombstones(level), members[level]) end
end
if evicted then
  local keys, member = #KEYS + 1 - 3 * (#ARGV + 1 - evicted), ARGV[evicted]
  redis.call('DEL', KEYS[keys])
  local name = string.sub(member, 97)
  redis.call('ZREM', KEYS[keys + 1], string.sub(member, 1, 32) .. name)
  redis.call('ZREM', KEYS[keys + 2], string.sub(member, 1, 64) .. name)
  redis.call('ZREM', completed(3), member)
  redis.call('HINCRBY', KEYS[2], 'evictions', 1)
end
domain[2] = domain[2] or ticket
redis.call('HSET', KEYS[2], 'stamp', int(now), 'limits', limits, 'born', domain[2])
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

local attempt = again and attempts + 1 or 1
if receipt ~= '' then
  redis.call('HSET', KEYS[1], 'receipt', receipt)
  redis.call('HSET', KEYS[12], receipt, lines .. reserved(attempt, ARGV[26]))
end
if receipt ~= '' and not goes_on then
  redis.call('ZADD', KEYS[13], int(now), receipt)
  collect_after(KEYS[12], now + receipt_ttl)
  collect_after(KEYS[13], now + receipt_ttl)
  local surplus = redis.call('ZCARD', KEYS[13]) - tonumber(ARGV[28])
  local oldest = redis.call('ZRANGE', KEYS[13], 0, 1, 'WITHSCORES')
  for place = 1, #oldest, 2 do
    if place <= 2 * surplus or tonumber(oldest[place + 1]) <= now - receipt_ttl then
      redis.call('HDEL', KEYS[12], oldest[place])
      redis.call('ZREM', KEYS[13], oldest[place])
    end
  end
end
return first(attempt, now)
