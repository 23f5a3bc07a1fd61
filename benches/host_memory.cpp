// What the driver does with host memory, and what the ways to copy from and to it cost: in C, with its calls alone.
// nvcc -O2 -o host_memory host_memory.cpp -lcuda && ./host_memory
#include <cuda.h>
#include <sys/mman.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <functional>
using clk = std::chrono::steady_clock;
static double us(clk::time_point a) { return std::chrono::duration<double, std::micro>(clk::now() - a).count(); }
#define CK(x) do { CUresult r_ = (x); if (r_) { const char*s=0; cuGetErrorName(r_,&s); printf("!! line %d %s -> %d %s\n", __LINE__, #x, r_, s?s:"?"); } } while (0)
#define SHOW(x) do { CUresult r_ = (x); const char*s=0; cuGetErrorName(r_,&s); printf("  %-70s -> %d %s\n", #x, r_, s?s:"?"); } while (0)
template <class F> double med(F f, int iters, int batches = 11, std::function<void()> between = {}) {
  for (int i = 0; i < std::min(iters, 50); i++) f();
  if (between) between();
  std::vector<double> v;
  for (int b = 0; b < batches; b++) { auto t0 = clk::now(); for (int i = 0; i < iters; i++) f(); double e = us(t0) * 1000 / iters; if (between) between(); v.push_back(e); }
  std::sort(v.begin(), v.end()); return v[v.size() / 2];
}
CUdeviceptr big; CUstream s;
void busy() { for (int i = 0; i < 40; i++) CK(cuMemsetD8Async(big, i, (size_t)2 << 30, s)); }
int main() {
  setvbuf(stdout, 0, _IONBF, 0);
  CK(cuInit(0)); CUdevice dev; CK(cuDeviceGet(&dev, 0)); CUcontext ctx, c2;
  CK(cuDevicePrimaryCtxRetain(&ctx, dev));
  printf("retain+release %.1f ns\n", med([&] { cuDevicePrimaryCtxRetain(&c2, dev); cuDevicePrimaryCtxRelease(dev); }, 1000));
  // pool across primary context death
  CUmemPoolProps pp = {}; pp.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; pp.location.type = CU_MEM_LOCATION_TYPE_DEVICE; pp.location.id = dev; pp.maxSize = (size_t)4 << 30;
  CUmemoryPool pool; CK(cuMemPoolCreate(&pool, &pp)); cuuint64_t th = ~0ull; CK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &th));
  CK(cuCtxPushCurrent(ctx)); CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); CUdeviceptr d; CK(cuMemAllocFromPoolAsync(&d, 1 << 20, pool, s)); CK(cuMemFreeAsync(d, s)); CK(cuStreamSynchronize(s)); CK(cuStreamDestroy(s)); CK(cuCtxPopCurrent(&c2));
  printf("-- release the primary context to 0 with a pool alive\n");
  SHOW(cuDevicePrimaryCtxRelease(dev)); unsigned fl; int act; SHOW(cuDevicePrimaryCtxGetState(dev, &fl, &act)); printf("  active %d\n", act);
  cuuint64_t v; SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v)); printf("  reserved %llu\n", (unsigned long long)v);
  SHOW(cuMemPoolTrimTo(pool, 0));
  { auto t = clk::now(); SHOW(cuDevicePrimaryCtxRetain(&ctx, dev)); printf("  retain from nothing %.0f us\n", us(t)); }
  CK(cuCtxPushCurrent(ctx)); SHOW(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  SHOW(cuMemAllocFromPoolAsync(&d, 1 << 20, pool, s)); SHOW(cuMemsetD8Async(d, 7, 1 << 20, s)); unsigned char b = 0; SHOW(cuMemcpyDtoHAsync(&b, d, 1, s)); SHOW(cuStreamSynchronize(s)); printf("  byte %d\n", b); SHOW(cuMemFreeAsync(d, s)); SHOW(cuStreamSynchronize(s)); SHOW(cuMemPoolDestroy(pool));
  printf("-- allocation alive when the primary context dies\n");
  CK(cuMemPoolCreate(&pool, &pp)); CK(cuMemAllocFromPoolAsync(&d, 1 << 20, pool, s)); CK(cuStreamSynchronize(s)); SHOW(cuStreamDestroy(s)); CK(cuCtxPopCurrent(&c2)); SHOW(cuDevicePrimaryCtxRelease(dev));
  CK(cuDevicePrimaryCtxRetain(&ctx, dev)); CK(cuCtxPushCurrent(ctx)); CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  SHOW(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v)); printf("  used %llu\n", (unsigned long long)v);
  SHOW(cuMemFreeAsync(d, s)); SHOW(cuStreamSynchronize(s)); SHOW(cuMemPoolDestroy(pool));
  // copies
  CK(cuMemAlloc(&big, (size_t)2 << 30)); CK(cuMemsetD8Async(big, 0, (size_t)2 << 30, s)); CK(cuStreamSynchronize(s));
  { auto t = clk::now(); busy(); double q = us(t); cuStreamSynchronize(s); printf("busy: enqueue %.0f us, drain %.0f us\n", q, us(t)); }
  const size_t N = 8 << 20; CUdeviceptr dst; CK(cuMemAlloc(&dst, N));
  unsigned char* host = (unsigned char*)mmap(0, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); std::vector<unsigned char> back(N);
  printf("-- partly registered source, overwritten on return, busy stream (late bytes of the copy)\n");
  struct { const char* n; size_t off, len; } parts[] = {{"none", 0, 0}, {"all", 0, N}, {"first half", 0, N / 2}, {"second half", N / 2, N / 2}, {"middle", N / 4, N / 2}, {"last page", N - 4096, 4096}, {"first page", 0, 4096}};
  for (auto& p : parts) for (size_t cp : {(size_t)65536, N}) {
    size_t start = 0;
    memset(host, 1, N); if (p.len) SHOW(cuMemHostRegister(host + p.off, p.len, 0));
    busy(); auto t = clk::now(); CUresult r = cuMemcpyHtoDAsync(dst, host + start, cp, s); double ret = us(t);
    memset(host, 2, N); cuStreamSynchronize(s); cuMemcpyDtoH(back.data(), dst, cp);
    size_t late = 0; for (size_t i = 0; i < cp; i++) late += back[i] != 1;
    unsigned mt0 = 9, mt1 = 9; CUresult a0 = cuPointerGetAttribute(&mt0, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host), a1 = cuPointerGetAttribute(&mt1, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host + cp - 1);
    printf("  registered %-12s copy %8zu rc %d returns %8.1f us late %zu; attr first %d/%u last %d/%u\n", p.n, cp, r, ret, late, a0, mt0, a1, mt1);
    if (p.len) CK(cuMemHostUnregister(host + p.off));
  }
  printf("-- DtoH to partly registered target on a busy stream: returns after\n");
  for (auto& p : parts) { if (p.len) CK(cuMemHostRegister(host + p.off, p.len, 0)); busy(); auto t = clk::now(); CUresult r = cuMemcpyDtoHAsync(host, dst, N, s); double ret = us(t); cuStreamSynchronize(s); printf("  registered %-12s rc %d returns %.1f us, done %.1f us\n", p.n, r, ret, us(t)); if (p.len) CK(cuMemHostUnregister(host + p.off)); }
  printf("-- freeing pinned memory in flight\n");
  { unsigned char* pin; CK(cuMemHostAlloc((void**)&pin, N, 0)); memset(pin, 1, N); busy(); CK(cuMemcpyHtoDAsync(dst, pin, N, s)); auto t = clk::now(); CUresult r = cuMemFreeHost(pin); printf("  cuMemFreeHost with a copy pending rc %d returns %.0f us\n", r, us(t)); cuStreamSynchronize(s); cuMemcpyDtoH(back.data(), dst, N); size_t late = 0; for (auto x : back) late += x != 1; printf("  wrong bytes %zu\n", late); }
  { CK(cuMemHostRegister(host, N, 0)); memset(host, 1, N); busy(); CK(cuMemcpyHtoDAsync(dst, host, N, s)); auto t = clk::now(); CUresult r = cuMemHostUnregister(host); printf("  cuMemHostUnregister with a copy pending rc %d returns %.0f us\n", r, us(t)); memset(host, 2, N); cuStreamSynchronize(s); cuMemcpyDtoH(back.data(), dst, N); size_t late = 0; for (auto x : back) late += x != 1; printf("  late bytes %zu\n", late); }
  // ways to copy host slices, idle stream, until source consumed
  printf("-- HtoD ways, idle: us per copy until the source may change\n");
  unsigned char* pin; CK(cuMemHostAlloc((void**)&pin, N * 2, 0)); CUevent ev[2]; cuEventCreate(&ev[0], CU_EVENT_DISABLE_TIMING); cuEventCreate(&ev[1], CU_EVENT_DISABLE_TIMING);
  memset(host, 3, N);
  for (size_t sz : {(size_t)64, (size_t)1024, (size_t)4096, (size_t)16384, (size_t)65536, (size_t)262144, (size_t)1 << 20, (size_t)4 << 20, N}) {
    int it = sz > 500000 ? 20 : 200; auto sync = [&] { cuStreamSynchronize(s); };
    double a = med([&] { cuMemcpyHtoDAsync(dst, host, sz, s); }, it, 11, sync);
    double a2 = med([&] { unsigned m; cuPointerGetAttribute(&m, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host); cuMemcpyHtoDAsync(dst, host, sz, s); }, it, 11, sync);
    double b = med([&] { cuMemcpyHtoDAsync(dst, host, sz, s); cuStreamSynchronize(s); }, it, 11, sync);
    double c = med([&] { memcpy(pin, host, sz); cuMemcpyHtoDAsync(dst, pin, sz, s); cuEventRecord(ev[0], s); }, it, 11, sync);
    double c2 = med([&] { memcpy(pin, host, sz); cuMemcpyHtoDAsync(dst, pin, sz, s); cuEventRecord(ev[0], s); cuEventQuery(ev[0]); }, it, 11, sync);
    auto chunked = [&](size_t ch) { return med([&] { int k = 0; for (size_t o = 0; o < sz; o += ch, k ^= 1) { size_t n = std::min(ch, sz - o); cuEventSynchronize(ev[k]); memcpy(pin + k * ch, host + o, n); cuMemcpyHtoDAsync(dst + o, pin + k * ch, n, s); cuEventRecord(ev[k], s); } }, it, 11, sync); };
    double e = chunked(128 << 10), f = chunked(512 << 10), g = chunked(1 << 20);
    CK(cuMemHostRegister(host, N, 0)); double h = med([&] { cuMemcpyHtoDAsync(dst, host, sz, s); cuStreamSynchronize(s); }, it, 11, sync); CK(cuMemHostUnregister(host));
    printf("%9zu: plain %.2f  attr+plain %.2f  plain+sync %.2f | stage+record %.2f (+query %.2f) chunks 128K %.2f 512K %.2f 1M %.2f | registered+sync %.2f\n", sz, a/1e3, a2/1e3, b/1e3, c/1e3, c2/1e3, e/1e3, f/1e3, g/1e3, h/1e3);
  }
  printf("-- DtoH ways, idle: us until the target is filled\n");
  for (size_t sz : {(size_t)64, (size_t)1024, (size_t)4096, (size_t)16384, (size_t)65536, (size_t)262144, (size_t)1 << 20, (size_t)4 << 20, N}) {
    int it = sz > 500000 ? 20 : 200; auto sync = [&] { cuStreamSynchronize(s); };
    double a = med([&] { cuMemcpyDtoHAsync(host, dst, sz, s); cuStreamSynchronize(s); }, it, 11, sync);
    double b = med([&] { cuMemcpyDtoHAsync(pin, dst, sz, s); cuStreamSynchronize(s); memcpy(host, pin, sz); }, it, 11, sync);
    auto chunked = [&](size_t ch) { return med([&] { size_t n0 = std::min(ch, sz); cuMemcpyDtoHAsync(pin, dst, n0, s); cuEventRecord(ev[0], s); int k = 0; for (size_t o = 0; o < sz; o += ch, k ^= 1) { size_t nx = o + ch; if (nx < sz) { cuMemcpyDtoHAsync(pin + (k ^ 1) * ch, dst + nx, std::min(ch, sz - nx), s); cuEventRecord(ev[k ^ 1], s); } cuEventSynchronize(ev[k]); memcpy(host + o, pin + k * ch, std::min(ch, sz - o)); } }, it, 11, sync); };
    double e = chunked(128 << 10), f = chunked(512 << 10), g = chunked(1 << 20);
    CK(cuMemHostRegister(host, N, 0)); double h = med([&] { cuMemcpyDtoHAsync(host, dst, sz, s); cuStreamSynchronize(s); }, it, 11, sync); CK(cuMemHostUnregister(host));
    printf("%9zu: plain+sync %.2f | stage+sync %.2f chunks 128K %.2f 512K %.2f 1M %.2f | registered+sync %.2f\n", sz, a/1e3, b/1e3, e/1e3, f/1e3, g/1e3, h/1e3);
  }
  printf("event create+destroy %.1f ns; hostalloc 1MiB+free %.1f us\n", med([&] { CUevent q; cuEventCreate(&q, 2); cuEventDestroy(q); }, 2000), med([&] { void* p; cuMemHostAlloc(&p, 1 << 20, 0); cuMemFreeHost(p); }, 5, 5) / 1e3);
}
