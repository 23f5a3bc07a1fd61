// PyTorch's caching allocator, as its C++ programs use it.
#include "timed.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

struct caching_allocator {
    using block = void*;
    std::vector<cudaStream_t> streams;

    explicit caching_allocator(uint32_t count) : streams(count) {
        for (auto& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    ~caching_allocator() {
        for (auto& stream : streams) cudaStreamDestroy(stream);
    }
    block allocate(uint32_t stream, size_t bytes) { return caching::raw_alloc_with_stream(bytes, streams[stream]); }
    void release(uint32_t, block& block) {
        caching::raw_delete(block);
        block = nullptr;
    }
    void synchronize(uint32_t stream) { check(cudaStreamSynchronize(streams[stream])); }
    void drain() {
        for (auto& stream : streams) check(cudaStreamSynchronize(stream));
    }
    void trim() { caching::emptyCache(); }
    uint64_t reserved() { return static_cast<uint64_t>(caching::getDeviceStats(0).reserved_bytes[0].current); }
};

}  // namespace

namespace timed {

void attach() { check(cudaSetDevice(0)); }

std::unique_ptr<peer> open(uint32_t setting, uint32_t streams) {
    if (setting != 0) throw std::out_of_range("no such setting");
    attach();
    caching::init(1);
    return std::make_unique<timed_peer<caching_allocator>>(streams);
}

}  // namespace timed

extern "C" {

const char* peer_who(void) { return "torch"; }
const char* peer_version(void) { return TORCH_VERSION_TEXT; }
const char* peer_setting(uint32_t setting) { return setting == 0 ? "caching allocator" : nullptr; }
int peer_own(uint32_t) { return 0; }

}  // extern "C"
