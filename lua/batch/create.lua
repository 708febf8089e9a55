#!lua
--[[
Runs reserves, usage events and decisions of one partition that waited at the same time; see docs/design/group-commit.md.

KEYS and ARGV: those of the members; see batch/run.

Replies, for each member: its own reply, or
  fault error | unknown error | again
]]
-- @include batch/run
local OPERATIONS = {}
-- @members OPERATIONS
return batch_run(OPERATIONS, KEYS, ARGV)
