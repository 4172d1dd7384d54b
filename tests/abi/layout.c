/* The layout as C sees it. */
#include <tenon/abi.h>

#define SIZE(table, bytes) _Static_assert(sizeof(table) == (bytes), "size of " #table);
#define AT(table, member, offset) _Static_assert(offsetof(table, member) == (offset), "place of " #table "." #member);
#include "layout.inc"

_Static_assert(sizeof(void*) == 8 && sizeof(void (*)(void)) == 8, "64-bit addresses");
_Static_assert(TENON_ABI_MAJOR == 0 && TENON_ABI_MINOR == 1, "the version these numbers belong to");

/* Answers of the inline functions, for the test to compare with C++'s. */
int64_t c_row_bytes(uint32_t encoding, int64_t cols) { return tenon_encoding_row_bytes(encoding, cols); }
int c_has_last_member(const tenon_host* host) { return TENON_HAS(host, dtype); }
