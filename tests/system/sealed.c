/* sealed.c - for sealed.sh: fills a page of `vault`, which sealed serves; shows how it is kept. */
#include <errno.h>
#include <manager.h>
#include <pstore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static ps_container *box;
static char *page;
struct kept { uint64_t nonce[256]; uint8_t (*sealed)[KM_PAGE_BYTES]; }; /* as sealed.c has it */

static int fill(void *letter)
{
    memset(page, *(char *)letter, KM_PAGE_BYTES);
    return 0;
}

static int show(void *unused)
{
    const struct kept *kept = ps_root(box);
    for (int i = 0; kept && i < 32; i++) printf("%02x", kept->sealed[0][i]);
    printf("\n");
    return unused != NULL || !kept;
}

int main(int argc, char **argv)
{
    while (argc == 2 && !(page = km_open("vault", "vault", KM_READ | KM_WRITE))) {
        if (errno != ENOENT) return 1;  /* else it is not there yet */
    }
    box = ps_open("vault.sealed", 0, NULL);
    return box ? ps_transaction(argc == 2 ? fill : show, argc == 2 ? argv[1] : NULL) : 1;
}
