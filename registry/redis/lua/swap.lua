-- Replaces a document if it is exactly old, and announces the change. An empty text deletes
-- the document; a missing document counts as empty. Returns 1, or 0 for another document.
-- KEYS: document. ARGV: old, text, channel.
local old, text, channel = unpack(ARGV)
local now = redis.call('GET', KEYS[1]) or ''
if now ~= old then
  return 0
end
if text == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], text)
end
if now ~= text then
  redis.call('PUBLISH', channel, '')
end
return 1
