-- lua.sh: counts in the state that it shares, a transaction for each round.
local me, rounds = ...
for i = 1, rounds do
    n = (n or 0) + 1
    seen = seen or {}
    seen[me] = (seen[me] or 0) + 1
    print(me .. " " .. i)
    commit()
end
