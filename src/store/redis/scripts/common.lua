-- Read by every script first. Nothing is written before all reads and checks are done.
--
-- KEYS: 1 the record; 2 the domain; then the sets of scope (3-5), principal (6-8) and domain
-- (9-11), each: in flight by lease end, completed by completion, tombstones by expiry.
-- ARGV: 1 ticket, 2 slot, 3 scope, 4 principal (32 bytes each), 5 tombstone_ttl, 6 ttl, 7 lease,
-- 8 what the record is called in a workspace, or nothing.
-- Times are microseconds. A member names all that is above its level: slot; slot and scope; slot,
-- scope and principal; and the record last, wherever the slot is not its name.
--
-- A record has `state`, `hash`, `ticket` and `until`, completed also `status`, `type`, `body` and
-- perhaps `route`. Fields that are absent where they say nothing: `dispatch`, where its call goes, of
-- a tool that declares it; `attempts`, how many were reserved, of one alone; `again`, of a claim that
-- took an unknown record again; `receipt`, its name.
--
-- A record in flight whose lease has ended is a tombstone (unknown) from then on, for
-- tombstone_ttl: its score says so, so nothing has to be converted.

-- Each number is formatted once: that costs as much as a small command.
local formatted = {}
local function int(number)
  local text = formatted[number] or string.format('%.0f', number)
  formatted[number] = text
  return text
end

local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000000 + tonumber(time[2])
local domain = redis.call('HMGET', KEYS[2], 'stamp', 'born', 'limits')
local stored = tonumber(domain[1] or 0)
-- The domain's order and its time in one: it never goes back, whatever the server's clock does.
local now = math.max(clock, stored + 1)

local ticket, slot, scope, principal = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local tombstone_ttl, ttl, lease = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local members = {slot .. ARGV[8], slot .. scope .. ARGV[8], slot .. scope .. principal .. ARGV[8]}

local function flying(level) return KEYS[level * 3] end
local function completed(level) return KEYS[level * 3 + 1] end
local function tombstones(level) return KEYS[level * 3 + 2] end

-- Garbage collection only: what counts is decided by scores and by the record's own fields.
local function collect_after(key, stamp)
  redis.call('PEXPIREAT', key, int(math.ceil(stamp / 1000) + 60000))
end

local function add(set, level, score, gone)
  redis.call('ZADD', set, int(score), members[level])
  collect_after(set, gone)
end

local function leave_flight()
  for level = 1, 3 do redis.call('ZREM', flying(level), members[level]) end
end

local function tick() redis.call('HSET', KEYS[2], 'stamp', int(now)) end

-- What every answer begins with: the word, the server's clock, the domain's stamp before and after.
local function answer(word, after)
  return {word, clock, stored, after or stored, domain[2] or ''}
end
