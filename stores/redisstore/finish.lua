-- Keeps the answer of a call, or removes its record.
-- KEYS: record, open. ARGV: nonce, time to live in ms (0 to remove the record), answer.
-- Returns 1, or 0 if the record is not the claim's.
local r = redis.call('HMGET', KEYS[1], 'state', 'nonce')
if r[2] ~= ARGV[1] then
	return 0
end
if r[1] == 'done' then -- the answer to this script was lost
	return 1
end
redis.call('ZREM', KEYS[2], KEYS[1])
if ARGV[2] == '0' then
	redis.call('DEL', KEYS[1])
	return 1
end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[1], 'state', 'done', 'since', now, 'answer', ARGV[3])
redis.call('HDEL', KEYS[1], 'until', 'caller', 'method', 'key')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
