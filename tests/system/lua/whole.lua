-- lua.sh: a table of all that --dump can write; without an argument, is it there?
if ... == "make" then
    all = { list = people.list, [1.5] = true, [true] = 1.5, ["a\nb"] = -7, cut = string.upper, inf = 1 / 0 }
    all.self = all
    setmetatable(all, { __index = string })
else
    print(people.ada.age .. " " .. #people.list .. " " .. people.list[300].text .. " " .. tostring(all[1.5]) .. " " ..
        all[true] .. " " .. all["a\nb"] .. " " .. all.upper("up") .. " " .. tostring(all.self == all) .. " " ..
        tostring(all.list == people.list and all.cut == string.upper and all.inf == 1 / 0))
end
