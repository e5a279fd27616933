-- Settles an undecided record.
-- KEYS: record, open. ARGV: "ran" or "not", time to live in ms.
-- Returns 1, or 0 if the record is not undecided.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', KEYS[1], 'state', 'until')
if r[1] ~= 'running' or tonumber(r[2]) > now then
	return 0
end
redis.call('ZREM', KEYS[2], KEYS[1])
redis.call('HDEL', KEYS[1], 'nonce', 'until')
if ARGV[1] == 'ran' then
	redis.call('HSET', KEYS[1], 'state', 'done', 'since', string.format('%.0f', now))
else
	redis.call('HSET', KEYS[1], 'state', 'free') -- its token stays: the next one must be larger
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
