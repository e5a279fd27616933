-- Takes one call from a bucket (the generic cell rate algorithm). KEYS[1] holds the time at which
-- the bucket will be full again, in microseconds. ARGV: microseconds a call, calls at once.
-- Returns 0, or how many microseconds later the call would be allowed.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + each
local wait = full - each * burst - now
if wait > 0 then
  return math.ceil(wait)
end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1)
return 0
