-- Reads the list. Returns a flat array with three elements for each instance: id, entry,
-- and the time in ms until it expires. An entry that is too large, or that would exceed
-- the maximum size of all entries, is replaced by its size in bytes.
-- KEYS: entries, until. ARGV: maximum number of instances, maximum size in bytes of one
-- entry, and of all entries.
local most, largest, room = unpack(ARGV)
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local listed = {}
local due = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', '(' .. string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #due, 2 do
  local size = redis.call('HSTRLEN', KEYS[1], due[i])
  local entry = size
  if size <= tonumber(largest) and size <= tonumber(room) then
    entry = redis.call('HGET', KEYS[1], due[i])
    room = room - size
  end
  if size > 0 then
    listed[#listed + 1] = due[i]
    listed[#listed + 1] = entry
    listed[#listed + 1] = math.min(tonumber(due[i + 1]) - now, 1e12)
  end
end
return listed
