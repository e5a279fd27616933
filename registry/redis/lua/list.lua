-- Reads the list: id, entry, and in how many ms it goes, again and again. In place
-- of an entry that is too large, or beyond the room, there is its size.
-- KEYS: entries, until. ARGV: most instances, most bytes of an entry, of all.
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
