-- Writes a document and announces the change. An empty text deletes the document.
-- KEYS: document. ARGV: text, channel.
local text, channel = unpack(ARGV)
if text == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], text)
end
redis.call('PUBLISH', channel, '')
return 1
