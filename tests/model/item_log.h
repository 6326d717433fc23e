/*
 * item_log.h - the committer of items.cpp's model: what is told for the log, groups, publication in
 * order, checkpoints, home writes, eviction; and what a start behind a power cut makes of the log.
 */
#pragma once
#include "item_pages.h"

struct Log : Pages {
    /* ---- what is told ---- */
    bool due(const State &s, int p) const
    {
        if (on(DUE_REWOUND) && s.due[p]) return false;
        for (int i = s.checkpointing ? s.next_redo : s.redo; i < s.entries; i++)
            if (s.log[i].page == p) return false;
        return true;
    }
    static u8 newest(const State &s, int p)
    {
        u8 found = 0;
        for (u8 i = 0; i < s.entries; i++)
            if (s.log[i].page == p) found = (u8)(i + 1);
        return found;
    }
    /* Leaf locked; `base`: the current words. */
    void tell(State &s, int t, int p, const u8 *base)
    {
        View &x = s.v[t];
        auto &copy = s.frame[x.copy[p] - 1], &current = s.frame[s.p[p].frame - 1];
        bool full = sc->full || due(s, p);
        x.rough = (u8)((x.rough & ~bit(p)) | (full ? 0 : bit(p)));
        for (int i = 0; i < 2; i++)
            if (!(x.declared[p] >> i & 1) && full && !on(NO_UNDO)) copy.word[i] = base[i];
        if (!x.declared[p]) return;
        Record r = {(u8)p, full, (u8)(full ? 3 : x.declared[p]), 0, {copy.word[0], copy.word[1]}};
        r.base = full ? (u8)0 : on(BASE_APPLIED) ? s.p[p].lsn : s.p[p].newest;
        for (int u = 0; u < VIEWS; u++) /* those before it in the log, and not published */
            for (int i = 0; i < 2; i++)
                if (u != t && s.v[u].in_log && s.v[u].copy[p] && s.v[u].declared[p] >> i & 1 &&
                    !on(full ? FULL_OWN : DIFF_OWN))
                    r.value[i] = (u8)(r.value[i] + s.frame[s.v[u].copy[p] - 1].word[i] -
                                      current.word[i]);
        if (s.entries == ENTRIES) return wrong("the log is too short for this model");
        s.log[s.entries++] = r;
        s.due[p] |= full;
        s.p[p].newest = x.logged[p] = s.entries;
    }
    void told(State &s, int t)
    {
        View &x = s.v[t];
        for (int w = 0; w < WORDS; w++) {
            if (x.reads >> w & 1 && x.read[w] != s.log_truth[w] && !x.stray)
                wrong("what was read does not hold where its reader stands in the log");
            s.log_truth[w] = own(x, w, s.log_truth[w]);
        }
        x.in_log = 1;
        s.told = s.told_page = s.told_from = 0;
        s.open[s.opened++] = (u8)t;
    }
    void refuse(State &s, int t)
    {
        s.refusals--;
        for (int i = s.told_from; i < s.entries; i++) s.log[i] = {};
        s.entries = s.told_from;
        s.told = s.told_page = s.told_from = 0;
        s.v[t].pc = ABORTS;
        for (int p = 0; p < PAGES; p++) {
            if (!on(DUE_REWOUND)) s.due[p] = 0;
            if (!on(BASE_REWOUND)) s.p[p].newest = newest(s, p);
        }
    }
    void tells()
    {
        int t = now->told - 1, p = now->told_page;
        if (!now->told) {
            if (now->queued)
                step("the manager", of("takes a commit: T", now->queue[0] + 1), [&](State &s) {
                    s.told = (u8)(s.queue[0] + 1);
                    s.told_from = s.entries;
                    for (int i = 1; i < s.queued; i++) s.queue[i - 1] = s.queue[i];
                    s.queue[--s.queued] = 0;
                    if (on(REFUSED_PENDING)) s.v[s.told - 1].in_log = 1;
                });
            return;
        }
        while (p < PAGES && !now->v[t].copy[p]) p++;
        if (p == PAGES) {
            if (now->refusals) step("the manager", "refuses it", [&](State &s) { refuse(s, t); });
            return step("the manager", "has it in the group", [&](State &s) { told(s, t); });
        }
        if (on(UNDO_UNLOCKED) && !now->base_read)
            return step("the manager", "reads the base without the lock", [&](State &s) {
                s.base_read = 1;
                memcpy(s.base, s.frame[s.p[p].frame - 1].word, 2);
            });
        step("the manager", of("is told page ", p), [&](State &s) {
            u8 base[2];
            if (!s.p[p].frame) return wrong("there is no current version to compare with");
            memcpy(base, s.base_read ? s.base : s.frame[s.p[p].frame - 1].word, 2);
            tell(s, t, p, base);
            s.base_read = s.base[0] = s.base[1] = 0;
            s.told_page = (u8)(p + 1);
        });
    }

    /* ---- a group's way ---- */
    void group()
    {
        if (now->opened && !now->told && !now->air_state)
            step("the manager", "launches the group", [&](State &s) {
                memcpy(s.air, s.open, VIEWS);
                memset(s.open, 0, VIEWS);
                s.aired = s.opened;
                s.opened = 0;
                s.air_end = s.entries;
                s.air_state = LAUNCHED;
                memcpy(s.air_truth, s.log_truth, WORDS);
            });
        switch (now->air_state) {
        case LAUNCHED:
            return step("the group", "is flushed: the point of commit", [&](State &s) {
                s.durable = s.air_end;
                memcpy(s.disk_truth, s.air_truth, WORDS);
                s.air_state = FLUSHED;
                for (int i = 0; i < s.aired && on(RELEASE_FLUSH); i++) unlock(s.v[s.air[i]]);
            });
        case FLUSHED:
            return step("the group", "is applied to the metadata", [&](State &s) {
                for (u8 i = 0; i < s.durable; i++) s.p[s.log[i].page].lsn = (u8)(i + 1);
                s.air_state = APPLIED;
            });
        case APPLIED: return publication();
        case PUBLISHED:
            return step("the kernel", "frees old versions", [&](State &s) {
                collect(s, true);
                s.air_state = COLLECTED;
            });
        case COLLECTED:
            return step("the group", "is answered", [&](State &s) {
                for (int i = 0; i < s.aired; i++) s.v[s.air[i]].pc = ENDING;
                memset(s.air, 0, VIEWS);
                s.aired = s.air_state = 0;
            });
        }
    }
    static void unlock(View &x) { memset(x.lock, 0, HALVES); }
    void publication()
    {
        if (now->shoot)
            return step("the kernel", "shoots down", [&](State &s) {
                for (int v = 0; v < VIEWS; v++)
                    if (s.shoot >> v & 1) s.v[v].tlb[s.shoot_page] = {};
                s.shoot = s.shoot_page = 0;
            });
        State s = *now;                 /* on to the next page that there is */
        while (s.publish_view < s.aired) {
            int i = on(PUBLISH_ANY) ? s.aired - 1 - s.publish_view : s.publish_view, u = s.air[i];
            if (s.v[u].copy[s.publish_page] && s.v[u].declared[s.publish_page]) {
                int p = s.publish_page;
                return step(name(u), of("is published: page ", p), [&](State &t) {
                    t = s;
                    publish(t, u, p);
                });
            }
            if (++s.publish_page < PAGES) continue;
            s.v[u].in_log = s.publish_page = 0;
            s.publish_view++;
        }
        step("the kernel", "moves `published`", [&](State &t) {
            t = s;
            t.publish_view = t.publish_page = 0;
            t.air_state = PUBLISHED;
            if (++t.published == HISTORY) return wrong("too many publications for this model");
            memcpy(t.history[t.published], t.truth, WORDS);
        });
    }

    /* ---- checkpoints, home writes, eviction ---- */
    void checkpoints()
    {
        if (now->checkpoints && !now->checkpointing && !now->told && !now->opened && !now->aired)
            step("a checkpoint", "begins", [&](State &s) {
                s.checkpoints--;
                s.checkpointing = 1;
                s.next_redo = s.entries;
                s.due[0] = s.due[1] = 0;
            });
        bool all = now->checkpointing;
        for (int p = 0; p < PAGES && (now->checkpointing || sc->evictions); p++)
            all &= page_home(p);
        if (all)
            step("the checkpoint", "is complete", [&](State &s) {
                s.redo = s.next_redo;
                s.checkpointing = s.next_redo = 0;
            });
    }
    /* True: the checkpoint does not wait for it. */
    bool page_home(int p)
    {
        const Page &g = now->p[p];
        bool newer = false, used = false;
        for (int i = now->next_redo; i < now->durable; i++) newer |= now->log[i].page == p;
        for (auto &x : now->v) used |= x.copy[p] != 0;
        for (auto &o : g.old) used |= o.rough && !on(EVICT_ROUGH);
        if (now->evictions && g.frame && g.clean && !g.home_step && (!used || on(EVICT_BASE)))
            step("the evictor", of("takes page ", p), [&](State &s) { evict(s, p); });
        bool free = (g.clean || newer) && !g.home_step;
        if (g.frame && !g.clean && !(newer && !g.home_step && !now->evictions))
            step("page", std::to_string(p) + of(" goes home, step ", g.home_step),
                 [&](State &s) { home_step(s, s.p[p]); });
        return free;
    }
    void home_step(State &s, Page &g)
    {
        if (g.home_step < 3) {
            if (!g.home_step) g.home_csn = g.csn;
            else g.home[g.home_step - 1] = s.frame[g.frame - 1].word[g.home_step - 1];
            g.home_step++;
            return;
        }
        g.clean = on(HOME_BLIND) || (g.home_csn == g.lsn && g.home_csn == g.csn);
        g.home_step = g.home_csn = 0;
    }
    void evict(State &s, int p)
    {
        s.evictions--;
        for (int v = 0; v < VIEWS; v++) {
            View &x = s.v[v];
            if (x.entry[p].frame != s.p[p].frame) continue;
            entry_take(s, v, p);
            if (on(EVICT_EMPTY)) x.used &= (u8)~bit(p);
        }
        u8 frame = s.p[p].frame;
        s.p[p].frame = 0;
        frame_free(s, frame);
    }

    /* ---- a power cut ---- */
    void recover(int to, const u8 *truth)
    {
        for (int p = 0; p < PAGES; p++) {
            u8 words[2] = {now->p[p].home[0], now->p[p].home[1]}, before = 0;
            for (int i = now->redo; i < to; i++) {
                const Record &r = now->log[i];
                if (r.page != p) continue;
                if (!before && !r.full) wrong("recovery: a page's first record is no whole image");
                if (before && !r.full && r.base != before)
                    wrong("recovery: a difference from another version than the one before it");
                before = (u8)(i + 1);
                for (int k = 0; k < 2; k++)
                    if (r.mask >> k & 1) words[k] = r.value[k];
            }
            if (memcmp(words, truth + 2 * p, 2)) wrong("recovery does not give what was committed");
        }
    }
};
