-- lua.sh: a snapshot stays as it was, whatever is committed behind it; old ones are given up.
n, list, deep = 1, { "a", "b", nil, "d", [10] = "ten", [-1] = 1.5, [2.5] = false }, { deeper = { deepest = "here" } }
function f() end
long = ("long name "):rep(20)
deep[long] = { true }
commit()
local s = snapshot()
n, list, deep, f, long = 2, {}, nil, 7, nil
collectgarbage()
commit()
assert(s.n == 1 and s.list[1] == "a" and s.list[4] == "d" and s.list[3] == nil and s.list[10] == "ten")
assert(s.list[-1] == 1.5 and s.list[2.5] == false and s.list[1.0] == "a" and s.nothing == nil and s.list[true] == nil)
assert(#s.list == 4 or #s.list == 2, #s.list)
assert(s.deep.deeper.deepest == "here" and s.deep[s.long][1] == true and s.deep[("long name "):rep(20)][1])
assert(#snapshot().list == 0 and snapshot().n == 2)
local sum, keys = 0, 0
for key, value in pairs(s.list) do
    keys = keys + 1
    sum = sum + (math.type(key) == "integer" and key or 0)
end
assert(keys == 6 and sum == 1 + 2 + 4 + 10 - 1, keys .. " " .. sum)
assert(not pcall(function() return s.f.x end) and not pcall(function() s.n = 3 end))
n = 3
kept = snapshot()
print("n", kept.n)                      -- not 3, which is not committed
for i = 1, 6 do snapshot() end
local good, why = pcall(function() return s.n end)
print(good, why)
