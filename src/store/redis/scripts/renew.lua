-- Puts off the end of a lease.

if not runs then return answer('stale') end
renew()
return answer('done', now)
