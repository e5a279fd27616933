-- Extends the lease of a record.
-- KEYS: record, open. ARGV: nonce, lease and time to live in ms.
-- Returns 1, or 0 if the record is not the claim's.
local r = redis.call('HMGET', KEYS[1], 'state', 'nonce')
if r[1] ~= 'running' or r[2] ~= ARGV[1] then
	return 0
end
local time = redis.call('TIME')
local lasts = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
redis.call('HSET', KEYS[1], 'until', lasts)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], lasts, KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
