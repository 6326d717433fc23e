-- lua --dump: prints a chunk that makes the globals again, with all tables that they lead to, shared ones and cycles too.
-- What only this Lua can hold is left out, and told: functions of Lua, coroutines, userdata.
local named = {} -- what each new state has: libraries, and functions of C in them
for _, name in ipairs { "_G", "coroutine", "table", "string", "math", "utf8", "os", "debug", "package", "io" } do
    named[_G[name]] = name
    for key, value in next, _G[name] do
        if type(value) == "function" and debug.getinfo(value, "S").what == "C" then
            named[value] = name == "_G" and key or name .. "." .. key
        end
    end
end

local tables, number = {}, {}
local function written(value) -- as an expression; nil: it cannot be
    local kind = type(value)
    if kind == "table" and not named[value] then
        if not number[value] then
            tables[#tables + 1] = value
            number[value] = #tables
            print(("t[%d] = {}"):format(#tables))
        end
        return ("t[%d]"):format(number[value])
    elseif kind == "table" or kind == "function" then
        return named[value]
    elseif kind ~= "thread" and kind ~= "userdata" then
        return ("%q"):format(value)
    end
end
local function field(of, key, value)
    local k, v = written(key), written(value)
    if k and v then
        print(("%s[%s] = %s"):format(of, k, v))
    else
        local left = ("-- left out: %s[%s], a %s"):format(of, k or type(key), type(value))
        print((left:gsub("\n", " ")))
    end
end

print("-- the globals of a state of Lua\nlocal t = {}")
for key, value in next, _G do
    if named[value] ~= key then field("_G", key, value) end
end
local last, done = {}, 0
while done < #tables do
    done = done + 1
    for key, value in next, tables[done] do field(("t[%d]"):format(done), key, value) end
    local meta = debug.getmetatable(tables[done])
    if meta then last[#last + 1] = ("setmetatable(t[%d], %s)"):format(done, written(meta)) end
end
for _, line in ipairs(last) do print(line) end
