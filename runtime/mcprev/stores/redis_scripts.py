"""The scripts of the store in Redis; each is one change that nobody sees half of."""

from __future__ import annotations

import hashlib
from typing import Final

WRITE: Final = """
local old = redis.call('HMGET', KEYS[1], 'n', 'i')
local found = tonumber(old[1] or 0)
if ARGV[2] ~= '' and tonumber(ARGV[2]) ~= found then return 0 end
local time = redis.call('TIME')
local version = string.format('%.0f', math.max(time[1] * 1000000 + time[2], found + 1))
redis.call('HSET', KEYS[1], 'v', ARGV[1], 'n', version, 'i', ARGV[4])
if ARGV[3] == '' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
if old[2] and old[2] ~= '' and old[2] ~= ARGV[4] then redis.call('ZREM', ARGV[6] .. old[2], ARGV[5]) end
if ARGV[4] == '' then return tonumber(version) end
local left = redis.call('PTTL', KEYS[2])
redis.call('ZADD', KEYS[2], version, ARGV[5])
if ARGV[3] == '' then redis.call('PERSIST', KEYS[2])
elseif left == -2 or (left >= 0 and left < tonumber(ARGV[3])) then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
for _, member in ipairs(redis.call('ZRANDMEMBER', KEYS[2], 3)) do
  if redis.call('EXISTS', ARGV[7] .. member) == 0 then redis.call('ZREM', KEYS[2], member) end
end
return tonumber(version)
"""
"""Of the index, three members that are chosen by chance are removed if they are over, so that these never get many."""
REMOVE: Final = """
local old = redis.call('HMGET', KEYS[1], 'n', 'i')
if not old[1] or (ARGV[1] ~= '' and tonumber(ARGV[1]) ~= tonumber(old[1])) then return 0 end
redis.call('DEL', KEYS[1])
if old[2] ~= '' then redis.call('ZREM', ARGV[3] .. old[2], ARGV[2]) end
return 1
"""
LISTED: Final = """
local listed = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local found = {}
for at = 1, #listed, 2 do
  local record = redis.call('HMGET', ARGV[3] .. listed[at], 'v', 'n')
  if record[1] then found[#found + 1] = {listed[at], record[1], tonumber(record[2])}
  else redis.call('ZREM', KEYS[1], listed[at]) end
end
return {#listed / 2, found, listed[#listed] or '0'}
"""
APPEND: Final = """
local head = redis.call('HMGET', KEYS[1], 'last', 'lost', 'done', 'items', 'size')
local last, lost, items, size = tonumber(head[1] or 0), tonumber(head[2] or 0), tonumber(head[4] or 0), tonumber(head[5] or 0)
if head[3] or (ARGV[1] ~= '' and tonumber(ARGV[1]) ~= last) then return -1 end
for at = 6, #ARGV, 2 do
  last = last + 1
  redis.call('XADD', KEYS[ARGV[at] == '1' and 3 or 2], string.format('%.0f-0', last), 'v', ARGV[at + 1])
  items, size = items + 1, size + #ARGV[at + 1]
end
while items > tonumber(ARGV[3]) or (size > tonumber(ARGV[4]) and items > 1) do
  local from = KEYS[3]
  local oldest = redis.call('XRANGE', from, '-', '+', 'COUNT', 1)[1]
  if not oldest then
    from = KEYS[2]
    oldest = redis.call('XRANGE', from, '-', '+', 'COUNT', 1)[1]
    lost = tonumber(string.match(oldest[1], '%d+'))
  end
  redis.call('XDEL', from, oldest[1])
  items, size = items - 1, size - #oldest[2][2]
end
redis.call('HSET', KEYS[1], 'last', last, 'lost', lost, 'items', items, 'size', size)
for at = 1, 3 do redis.call('PEXPIRE', KEYS[at], ARGV[2]) end
redis.call('PUBLISH', ARGV[5], last)
return last
"""
TAIL: Final = """
local head = redis.call('HMGET', KEYS[1], 'last', 'lost', 'done')
local last, after = tonumber(head[1] or 0), tonumber(ARGV[1])
local found = {last, tonumber(head[2] or 0), head[3] and 1 or 0}
for at = 2, 3 do
  found[at + 2] = last > after and redis.call('XRANGE', KEYS[at], string.format('%.0f-0', after + 1), '+') or {}
end
return found
"""
COMPLETE: Final = """
redis.call('HSETNX', KEYS[1], 'last', 0)
redis.call('HSET', KEYS[1], 'done', 1)
for at = 1, 3 do redis.call('PEXPIRE', KEYS[at], ARGV[1]) end
redis.call('PUBLISH', ARGV[2], 0)
"""
DIGESTS: Final = {
    script: hashlib.sha1(script.encode()).hexdigest()  # noqa: S324 - the name that Redis gives to a script
    for script in (WRITE, REMOVE, LISTED, APPEND, TAIL, COMPLETE)
}
