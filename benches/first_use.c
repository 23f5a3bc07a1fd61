// What a program without cupool does for its first allocation, and how long each step takes: a line "STEP NANOSECONDS"
// each. Needs no header of CUDA: cc -O2 -o first_use first_use.c -ldl
//
// Standard input names the entry points to resolve, a line "NAME VERSION" each; the argument, if any, is the driver's
// library.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*get_proc_address)(const char *, void **, int, unsigned long long, int *);
typedef struct { int type, id; } location;
typedef struct {
  int allocation_type, handle_types;
  location where;
  void *security_attributes;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
} pool_properties;

static struct { char name[128]; int version; void *address; } entries[1024];
static int count;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *entry(const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(entries[i].name, name) && entries[i].address) return entries[i].address;
  fprintf(stderr, "no %s\n", name);
  exit(1);
}

static void ok(int code, const char *what) {
  if (code) {
    fprintf(stderr, "%s was answered with %d\n", what, code);
    exit(1);
  }
}

int main(int argc, char **argv) {
  while (count < 1024 && scanf("%127s %d", entries[count].name, &entries[count].version) == 2) count++;

  double t0 = now();
  void *library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  double t1 = now();
  get_proc_address look_up = (get_proc_address)dlsym(library, "cuGetProcAddress_v2");
  if (!look_up) {
    fprintf(stderr, "no cuGetProcAddress_v2\n");
    return 1;
  }
  int status;
  // One that the driver lacks stays 0: it may not be needed.
  for (int i = 0; i < count; i++)
    if (look_up(entries[i].name, &entries[i].address, entries[i].version, 0, &status)) entries[i].address = 0;
  double t2 = now();
  ok(((int (*)(unsigned))entry("cuInit"))(0), "cuInit");
  double t3 = now();
  int device;
  void *context;
  ok(((int (*)(int *, int))entry("cuDeviceGet"))(&device, 0), "cuDeviceGet");
  ok(((int (*)(void **, int))entry("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
  double t4 = now();
  void *stream, *pool, *previous;
  ok(((int (*)(void *))entry("cuCtxPushCurrent"))(context), "cuCtxPushCurrent");
  ok(((int (*)(void **, unsigned, int))entry("cuStreamCreateWithPriority"))(&stream, 1, 0), "cuStreamCreate");
  ok(((int (*)(void **))entry("cuCtxPopCurrent"))(&previous), "cuCtxPopCurrent");
  pool_properties properties = {.allocation_type = 1, .where = {1, device}};
  unsigned long long threshold = ~0ull;
  ok(((int (*)(void **, pool_properties *))entry("cuMemPoolCreate"))(&pool, &properties), "cuMemPoolCreate");
  ok(((int (*)(void *, int, void *))entry("cuMemPoolSetAttribute"))(pool, 4, &threshold), "cuMemPoolSetAttribute");
  double t5 = now();
  unsigned long long address;
  ok(((int (*)(unsigned long long *, size_t, void *, void *))entry("cuMemAllocFromPoolAsync"))(&address, 1 << 20, pool, stream), "cuMemAllocFromPoolAsync");
  ok(((int (*)(void *))entry("cuStreamSynchronize"))(stream), "cuStreamSynchronize");
  double t6 = now();
  printf("load %.0f\nresolve %.0f\ninit %.0f\ncontext %.0f\nstream and pool %.0f\nfirst allocation %.0f\nall %.0f\n",
         t2 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, t6 - t5, t6 - t0);
  return 0;
}
