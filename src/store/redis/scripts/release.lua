-- Frees a slot: only where nothing was executed. A lapsed claim frees nothing.

local record = redis.call('HMGET', KEYS[1], 'state', 'ticket', 'until')
if record[2] ~= ticket then return answer('gone') end
if record[1] ~= 'flying' or now >= tonumber(record[3]) then return answer('stale') end

redis.call('DEL', KEYS[1])
tick()
leave_flight()
return answer('done', now)
