/* The floor: the driver's own calls, from C. The driver is looked up at run time, so this builds without one. */
#define _GNU_SOURCE
#include "peer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

/* As in cuda.h, of which this is all that is needed. */
struct mem_pool_props {
    int alloc_type, handle_types, location_type, location_id;
    void *security_attributes;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
};
enum { ALLOC_TYPE_PINNED = 1, LOCATION_TYPE_DEVICE = 1, RELEASE_THRESHOLD = 4, RESERVED_CURRENT = 5, NON_BLOCKING = 1 };

static CUresult (*cuInit)(unsigned);
static CUresult (*cuDriverGetVersion)(int *);
static CUresult (*cuGetErrorName)(CUresult, const char **);
static CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, int);
static CUresult (*cuCtxSetCurrent)(CUcontext);
static CUresult (*cuStreamCreate)(CUstream *, unsigned);
static CUresult (*cuStreamDestroy)(CUstream);
static CUresult (*cuStreamSynchronize)(CUstream);
static CUresult (*cuMemPoolCreate)(CUmemoryPool *, const struct mem_pool_props *);
static CUresult (*cuMemPoolDestroy)(CUmemoryPool);
static CUresult (*cuMemPoolSetAttribute)(CUmemoryPool, int, void *);
static CUresult (*cuMemPoolGetAttribute)(CUmemoryPool, int, void *);
static CUresult (*cuMemPoolTrimTo)(CUmemoryPool, size_t);
static CUresult (*cuMemAllocFromPoolAsync)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
static CUresult (*cuMemFreeAsync)(CUdeviceptr, CUstream);

static const struct {
    const char *name;
    void *function;
} symbols[] = {
    {"cuInit", &cuInit},
    {"cuDriverGetVersion", &cuDriverGetVersion},
    {"cuGetErrorName", &cuGetErrorName},
    {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
    {"cuCtxSetCurrent", &cuCtxSetCurrent},
    {"cuStreamCreate", &cuStreamCreate},
    {"cuStreamDestroy_v2", &cuStreamDestroy},
    {"cuStreamSynchronize", &cuStreamSynchronize},
    {"cuMemPoolCreate", &cuMemPoolCreate},
    {"cuMemPoolDestroy", &cuMemPoolDestroy},
    {"cuMemPoolSetAttribute", &cuMemPoolSetAttribute},
    {"cuMemPoolGetAttribute", &cuMemPoolGetAttribute},
    {"cuMemPoolTrimTo", &cuMemPoolTrimTo},
    {"cuMemAllocFromPoolAsync", &cuMemAllocFromPoolAsync},
    {"cuMemFreeAsync", &cuMemFreeAsync},
};

static _Thread_local char error[256];

static int failed(const char *what, CUresult code) {
    const char *name = NULL;
    if (cuGetErrorName != NULL && cuGetErrorName(code, &name) != 0) name = NULL;
    snprintf(error, sizeof error, "%s: %s (%d)", what, name ? name : "unknown error", code);
    return -1;
}

#define TRY(call)                                             \
    do {                                                      \
        CUresult code_ = (call);                              \
        if (code_ != 0) return failed(#call, code_);          \
    } while (0)

struct raw {
    CUcontext context;
    CUmemoryPool pool;
    CUstream *streams;
    CUdeviceptr *live;
    uint32_t stream_count, live_count;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int load(void) {
    static int loaded;
    if (loaded) return 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(error, sizeof error, "%s", dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            snprintf(error, sizeof error, "the driver has no %s", symbols[i].name);
            return -1;
        }
        memcpy(symbols[i].function, &address, sizeof address);
    }
    TRY(cuInit(0));
    loaded = 1;
    return 0;
}

const char *peer_who(void) { return "raw"; }

const char *peer_version(void) {
    static char text[32];
    int version = 0;
    if (load() != 0 || cuDriverGetVersion(&version) != 0) return "";
    snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return text;
}

const char *peer_error(void) { return error; }

const char *peer_setting(uint32_t setting) { return setting == 0 ? "kept" : setting == 1 ? "threshold 0" : NULL; }

int peer_own(uint32_t setting) {
    (void)setting;
    return 1;
}

int peer_attach(void *peer) {
    struct raw *raw = peer;
    TRY(cuCtxSetCurrent(raw->context));
    return 0;
}

static int open_raw(struct raw *raw, uint32_t setting, uint32_t streams) {
    if (load() != 0) return -1;
    TRY(cuDevicePrimaryCtxRetain(&raw->context, 0));
    if (peer_attach(raw) != 0) return -1;
    struct mem_pool_props props = {.alloc_type = ALLOC_TYPE_PINNED, .location_type = LOCATION_TYPE_DEVICE};
    TRY(cuMemPoolCreate(&raw->pool, &props));
    uint64_t threshold = setting == 0 ? UINT64_MAX : 0;
    TRY(cuMemPoolSetAttribute(raw->pool, RELEASE_THRESHOLD, &threshold));
    raw->streams = calloc(streams, sizeof *raw->streams);
    if (raw->streams == NULL) return failed("calloc", 2);
    for (; raw->stream_count < streams; raw->stream_count++)
        TRY(cuStreamCreate(&raw->streams[raw->stream_count], NON_BLOCKING));
    return 0;
}

void peer_close(void *peer) {
    struct raw *raw = peer;
    for (uint32_t i = 0; i < raw->stream_count; i++) {
        cuStreamSynchronize(raw->streams[i]);
        cuStreamDestroy(raw->streams[i]);
    }
    if (raw->pool != NULL) cuMemPoolDestroy(raw->pool);
    free(raw->streams);
    free(raw->live);
    free(raw);
}

void *peer_open(uint32_t setting, uint32_t streams) {
    struct raw *raw = calloc(1, sizeof *raw);
    if (raw == NULL) return NULL;
    if (open_raw(raw, setting, streams) != 0) {
        peer_close(raw);
        return NULL;
    }
    return raw;
}

int peer_drain(void *peer) {
    struct raw *raw = peer;
    for (uint32_t i = 0; i < raw->stream_count; i++) TRY(cuStreamSynchronize(raw->streams[i]));
    return 0;
}

int peer_trim(void *peer) {
    struct raw *raw = peer;
    TRY(cuMemPoolTrimTo(raw->pool, 0));
    return 0;
}

double peer_pairs(void *peer, uint32_t stream, uint64_t bytes, uint32_t count, int synchronise) {
    struct raw *raw = peer;
    CUstream queue = raw->streams[stream];
    double start = now();
    for (uint32_t i = 0; i < count; i++) {
        CUdeviceptr address;
        TRY(cuMemAllocFromPoolAsync(&address, bytes, raw->pool, queue));
        TRY(cuMemFreeAsync(address, queue));
        if (synchronise) TRY(cuStreamSynchronize(queue));
    }
    return now() - start;
}

int peer_fill(void *peer, const uint64_t *bytes, uint32_t count) {
    struct raw *raw = peer;
    raw->live = calloc(count, sizeof *raw->live);
    if (raw->live == NULL) return failed("calloc", 2);
    for (; raw->live_count < count; raw->live_count++)
        TRY(cuMemAllocFromPoolAsync(&raw->live[raw->live_count], bytes[raw->live_count], raw->pool, raw->streams[0]));
    return 0;
}

double peer_churn(void *peer, const struct peer_step *steps, uint32_t count) {
    struct raw *raw = peer;
    CUstream queue = raw->streams[0];
    double start = now();
    for (uint32_t i = 0; i < count; i++) {
        CUdeviceptr *block = &raw->live[steps[i].block];
        TRY(cuMemFreeAsync(*block, queue));
        TRY(cuMemAllocFromPoolAsync(block, steps[i].bytes, raw->pool, queue));
    }
    return now() - start;
}

int peer_empty(void *peer) {
    struct raw *raw = peer;
    while (raw->live_count > 0) TRY(cuMemFreeAsync(raw->live[--raw->live_count], raw->streams[0]));
    free(raw->live);
    raw->live = NULL;
    return 0;
}

static int replay(struct raw *raw, CUdeviceptr *blocks, const struct peer_event *events, uint32_t count,
                  uint64_t *reserved) {
    for (uint32_t i = 0; i < count; i++) {
        CUdeviceptr *block = &blocks[events[i].block];
        CUstream queue = raw->streams[events[i].stream];
        if (events[i].bytes != 0) {
            TRY(cuMemAllocFromPoolAsync(block, events[i].bytes, raw->pool, queue));
        } else {
            TRY(cuMemFreeAsync(*block, queue));
            *block = 0;
        }
        if (reserved != NULL) TRY(cuMemPoolGetAttribute(raw->pool, RESERVED_CURRENT, &reserved[i]));
    }
    return 0;
}

double peer_replay(void *peer, const struct peer_event *events, uint32_t count, uint32_t blocks, uint64_t *reserved) {
    struct raw *raw = peer;
    CUdeviceptr *addresses = calloc(blocks, sizeof *addresses);
    if (addresses == NULL) return failed("calloc", 2);
    double start = now();
    int code = replay(raw, addresses, events, count, reserved);
    double elapsed = now() - start;
    for (uint32_t i = 0; i < blocks; i++)
        if (addresses[i] != 0) cuMemFreeAsync(addresses[i], raw->streams[0]);
    free(addresses);
    return code == 0 ? elapsed : -1;
}
