-- Frees a slot: only where nothing was executed. A lapsed claim frees nothing, and one that took an
-- unknown record again leaves it unknown.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until', 'again')
if record[2] ~= ticket then return answer('gone') end
if record[4] then return entomb(record, 'unknown') end
if record[1] ~= 'flying' or now >= tonumber(record[3]) then return answer('stale') end

redis.call('DEL', KEYS[1])
tick()
leave_flight()
return answer('done', now)
