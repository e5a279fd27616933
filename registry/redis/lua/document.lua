-- Reads a document: its text, or false when it is what the caller has, or its size
-- when it is too large. No document is an empty one.
-- KEYS: document. ARGV: SHA-1 of what the caller has, most bytes.
local known, most = unpack(ARGV)
local size = redis.call('STRLEN', KEYS[1])
if size > tonumber(most) then
  return size
end
local text = redis.call('GET', KEYS[1]) or ''
if redis.sha1hex(text) == known then
  return false
end
return text
