-- Reads a document. Returns its text, or false if the caller has the same text already,
-- or its size in bytes if it is too large. A missing document counts as empty.
-- KEYS: document. ARGV: SHA-1 of the text that the caller has, maximum size in bytes.
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
