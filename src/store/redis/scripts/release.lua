-- Frees a slot: only where nothing was executed. A lapsed claim frees nothing, and one that took an
-- unknown record again leaves it unknown.

if not own then return answer('gone') end
if record[6] then return entomb('unknown') end
if state ~= 'flying' or now >= ends then return answer('stale') end

redis.call('DEL', KEYS[1])
tick()
leave_flight()
tell_end('released')
return answer('done', now)
