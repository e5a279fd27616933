-- Writes a report. Returns 1, or false if the maximum number of reports is reached.
-- KEYS: reports, until. ARGV: name, report, lifetime in ms, maximum number of reports.
local name, report, life, most = unpack(ARGV)
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- Remove expired reports, at most 1,000 for each call.
local dead = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)
if #dead > 0 then
  redis.call('ZREM', KEYS[2], unpack(dead))
  redis.call('HDEL', KEYS[1], unpack(dead))
end

if redis.call('HSTRLEN', KEYS[1], name) == 0 and redis.call('ZCARD', KEYS[2]) >= tonumber(most) then
  return false
end
redis.call('HSET', KEYS[1], name, report)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + life), name)
local last = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
last = math.min(last, now + 1e10) -- limits the expiry time that another client may have written
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, string.format('%.0f', last))
end
return 1
