/* site_holders.h - what model-holders plays: programs at home, sites (holders.cpp). */
#pragma once
static const Scenario scenarios[] = {
    {"one", "a site and a program write a page", {{"w0", "w0"}}, {{"w0", "w0"}}, 0, 0, 0},
    {"read", "both read and write", {{"r0", "w0"}}, {{"r0", "w0"}}, 0, 0, 0},
    {"pages", "two pages each", {{"w0w1"}}, {{"w0w1", "r0r1"}}, 0, 0, 0},
    {"sites", "two sites", {}, {{"r0", "w0"}, {"w0", "r0"}}, 0, 0, 0},
    {"sites2", "two sites and two pages", {{"r0w1"}}, {{"w0r1"}, {"r0w1"}}, 0, 0, 0},
    {"queue", "a reader behind a writer behind a site", {{"w0"}, {"r0"}}, {{"r0", "w0"}}, 0, 0, 0},
    {"notices", "two wait for two pages of one site", {{"w0"}, {"w1"}}, {{"r0r1", "r0"}}, 0, 0, 0},
    {"undone", "commits that are undone", {{"w0"}}, {{"w0w1", "w0"}}, 0, 1, 0},
    {"recall", "a manager calls a page back", {{"r0"}}, {{"w0", "w0"}}, 1, 0, 0},
    {"dies", "a site dies", {{"w0w1"}}, {{"w0w1"}, {"r0"}}, 0, 0, 1},
};
