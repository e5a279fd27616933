-- Renews an instance if its live entry equals entry. Returns 1, or the live entry if it is a
-- different one, or false if there is no live entry.
-- KEYS: entries, until. ARGV: id, entry, ttl in ms.
local id, entry, ttl = unpack(ARGV)
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local listed = redis.call('HGET', KEYS[1], id)
local till = redis.call('ZSCORE', KEYS[2], id)
if not (listed and till and tonumber(till) > now) then
  return false
end
if listed ~= entry then
  return listed
end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), id)
local last = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
last = math.min(last, now + 1e10) -- limits the expiry time that another client may have written
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, string.format('%.0f', last))
end
return 1
