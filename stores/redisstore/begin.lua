-- Claims a record.
-- KEYS: record, open. ARGV: nonce, lease and time to live in ms, fingerprint, caller, method, key.
-- Returns {"claimed", token}, or the record: {state, fingerprint, time[, answer]}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', KEYS[1], 'state', 'nonce', 'fingerprint', 'since', 'until', 'token', 'answer')
local state, nonce = r[1], r[2]
if state == 'done' then
	if r[7] then
		return {'done', r[3], r[4], r[7]}
	end
	return {'done', r[3], r[4]}
end
if state == 'running' and nonce ~= ARGV[1] then
	if tonumber(r[5]) > now then
		return {'running', r[3], r[4]}
	end
	return {'undecided', r[3], r[5]}
end
if state == 'running' then -- the answer to this claim was lost
	return {'claimed', r[6]}
end
local token = time[1] * 1000000 + time[2]
if r[6] and tonumber(r[6]) >= token then -- the record was resolved, and the clock has been set back
	token = tonumber(r[6]) + 1
end
token = string.format('%.0f', token)
now = string.format('%.0f', now)
local lasts = string.format('%.0f', now + ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'running', 'nonce', ARGV[1], 'fingerprint', ARGV[4], 'since', now, 'until', lasts,
	'token', token, 'caller', ARGV[5], 'method', ARGV[6], 'key', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], lasts, KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'claimed', token}
