/* What the harness knows of a peer that is written in C or C++: a shared library `libpeer_*.so` with these functions.
 *
 * Batches are timed here, around the peer's own compiled calls, so that coming from Rust costs nothing. A time is in
 * nanoseconds for the whole batch, and negative if something failed; other functions return 0 unless they failed.
 * `peer_error` says what did, in the calling thread.
 */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A block of the live set that is freed, and what is allocated in its place. */
struct peer_step {
    uint64_t bytes;
    uint32_t block;
};

/* An event of a trace: an allocation, or a free where `bytes` is 0. */
struct peer_event {
    uint64_t bytes;
    uint32_t block;
    uint32_t stream;
};

const char *peer_who(void);
const char *peer_version(void);
const char *peer_error(void);
/* The name of a way of using the peer; null past the last. */
const char *peer_setting(uint32_t setting);
/* Whether each thing that `peer_open` returns has a pool to itself. */
int peer_own(uint32_t setting);
/* Null if it failed. */
void *peer_open(uint32_t setting, uint32_t streams);
void peer_close(void *peer);
/* Once in every thread, before anything else is asked of `peer` there. */
int peer_attach(void *peer);
int peer_drain(void *peer);
/* Gives free memory back. */
int peer_trim(void *peer);

double peer_pairs(void *peer, uint32_t stream, uint64_t bytes, uint32_t count, int synchronise);
int peer_fill(void *peer, const uint64_t *bytes, uint32_t count);
double peer_churn(void *peer, const struct peer_step *steps, uint32_t count);
int peer_empty(void *peer);
/* With `reserved`, what the peer holds after each event is written there, and the time is of no use. */
double peer_replay(void *peer, const struct peer_event *events, uint32_t count, uint32_t blocks, uint64_t *reserved);

#ifdef __cplusplus
}
#endif
