-- lua.sh: what make.lua made is right, and goes on.
empty.x, empty[1] = "filled", true
local none = {}
assert(none.y == nil and next(none) == nil and #none == 0)
local key = walk(walked)
local at = each("ab", 0)
local before = traced
assert(coroutine.resume(hooked))
assert(coroutine.resume(hooked))
assert(traced > before, "the hook was not called")
assert(debug.gethook(hooked) ~= "external hook")
assert(select(2, pcall(error, "e")) == "e" and string.format("%5.2f", 2 / 3) == " 0.67")
assert(load("return 1 + 1")() == 2 and math.type(math.random(5)) == "integer")
assert(type(file("nothing of this name")) == "string")
print(count(), words(), numbers(), people.ada.age, #people.list, people.list[1].number, key, at, empty.x, #meta,
    meta.upper("up"))
empty = {}
