-- lua.sh: values of all kinds, which use.lua uses in a later boot. Many commits: ps_lint tells the first pointers of each.
local name = ...
people = { [name] = { age = 36 }, list = {} }
for i = 1, 300 do people.list[i] = { number = i, text = ("n"):rep(i % 50) } end
local calls = 0
function count() calls = calls + 1 return calls end
commit()
words = string.gmatch("one two three four", "%a+")          -- a closure of C
commit()
numbers = coroutine.wrap(function()
    for i = 1, 100 do
        local good, got = pcall(coroutine.yield, i)         -- suspended below pcall, a function of C
        assert(good)
    end
end)
numbers()
commit()
walk, walked = pairs({ "a" })                               -- next()
each = utf8.codes("ab")
commit()
empty = {}                                                  -- its node is Lua's static one
meta = setmetatable({}, { __index = string, __len = function() return 7 end })
file = package.searchers[1]
commit()
traced = 0
hooked = coroutine.create(function() while true do coroutine.yield(traced) end end)
debug.sethook(hooked, function() traced = traced + 1 end, "", 1)
commit()
table.sort(people.list, function(a, b) return a.number > b.number end)
print(count(), words(), numbers(), numbers())
