-- Adds an instance to the list, or updates it. Returns false on success. If another owner
-- has a live entry with the same id, which is not rival, it returns that entry and changes
-- nothing. rival is an entry that the caller has checked and may replace.
-- KEYS: entries, until. ARGV: id, owner, entry, ttl in ms, rival, channel.
local id, owner, entry, ttl, rival, channel = unpack(ARGV)
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local listed = redis.call('HGET', KEYS[1], id)
local till = redis.call('ZSCORE', KEYS[2], id)
local alive = listed and till and tonumber(till) > now
if alive and string.sub(listed, 1, #owner) ~= owner and listed ~= rival then
  return listed
end

-- Remove expired entries of all owners, at most 100 for each call.
local dead = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)
if #dead > 0 then
  redis.call('ZREM', KEYS[2], unpack(dead))
  redis.call('HDEL', KEYS[1], unpack(dead))
end

redis.call('HSET', KEYS[1], id, entry)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), id)
local last = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
last = math.min(last, now + 1e10) -- limits the expiry time that another client may have written
for _, key in ipairs(KEYS) do
  redis.call('PEXPIREAT', key, string.format('%.0f', last))
end
if not alive or listed ~= entry then
  redis.call('PUBLISH', channel, id)
end
return false
