-- Removes an instance from the list if the owner matches.
-- KEYS: entries, until. ARGV: id, owner, channel.
local id, owner, channel = unpack(ARGV)
local listed = redis.call('HGET', KEYS[1], id)
if listed and string.sub(listed, 1, #owner) == owner then
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('PUBLISH', channel, id)
end
return false
