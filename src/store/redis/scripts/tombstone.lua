-- Settles a claim as a tombstone. ARGV: 12 the reason, `unknown` or `not_replayable`.

if not own then return answer('stale') end
return entomb(ARGV[12])
