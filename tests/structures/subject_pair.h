/* subject_pair.h - place, set_up and tear_down of a subject with two instances, `numbers` and
 * `words`, whose heads are members of `kept`. It is included behind these. */
#ifndef SUBJECT_PAIR_H
#define SUBJECT_PAIR_H

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    numbers.head = &kept->numbers;
    words.head = &kept->words;
    numbers.memory = words.memory = memory;
}

static int set_up(void)
{
    int error = numbers_set_up(&numbers);
    if (error)
        return error;
    error = words_set_up(&words);
    if (error)
        numbers_tear_down(&numbers);
    return error;
}

static int tear_down(void)
{
    int error = numbers_tear_down(&numbers);
    return error ? error : words_tear_down(&words);
}

#endif
