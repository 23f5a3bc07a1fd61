// RMM's memory resources, by their own allocate and deallocate and by way of `device_buffer`.
#include "timed.hpp"

#include <cuda_runtime_api.h>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/version_config.hpp>

#include <optional>
#include <stdexcept>

namespace {

// A pool grows by as much as it has; an arena is reserved as a whole, and must hold the largest trace.
constexpr size_t pool_bytes  = size_t{256} << 20;
constexpr size_t arena_bytes = size_t{12} << 30;

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

struct cuda_async {
    rmm::mr::cuda_async_memory_resource resource;

    void trim() { check(cudaMemPoolTrimTo(resource.pool_handle(), 0)); }
    uint64_t reserved() {
        uint64_t bytes = 0;
        check(cudaMemPoolGetAttribute(resource.pool_handle(), cudaMemPoolAttrReservedMemCurrent, &bytes));
        return bytes;
    }
};

/// A resource that takes memory from `cudaMalloc`, counted.
template <class Resource, size_t Bytes>
struct over_malloc {
    rmm::mr::statistics_resource_adaptor upstream{rmm::mr::cuda_memory_resource{}};
    Resource resource{upstream, Bytes};

    void trim() {}
    uint64_t reserved() { return static_cast<uint64_t>(upstream.get_bytes_counter().value); }
};

using pool  = over_malloc<rmm::mr::pool_memory_resource, pool_bytes>;
using arena = over_malloc<rmm::mr::arena_memory_resource, arena_bytes>;

template <class Memory>
struct streams_of {
    Memory memory;
    std::vector<rmm::cuda_stream> streams;

    explicit streams_of(uint32_t count) {
        for (uint32_t i = 0; i < count; i++) streams.emplace_back(rmm::cuda_stream::flags::non_blocking);
    }
    void synchronize(uint32_t stream) { streams[stream].synchronize(); }
    void drain() {
        for (auto& stream : streams) stream.synchronize();
    }
    void trim() { memory.trim(); }
    uint64_t reserved() { return memory.reserved(); }
};

template <class Memory>
struct bare : streams_of<Memory> {
    using streams_of<Memory>::streams_of;
    struct block {
        void* address = nullptr;
        size_t bytes  = 0;
    };

    block allocate(uint32_t stream, size_t bytes) {
        return {this->memory.resource.allocate(this->streams[stream], bytes, 256), bytes};
    }
    void release(uint32_t stream, block& block) {
        this->memory.resource.deallocate(this->streams[stream], block.address, block.bytes, 256);
    }
};

template <class Memory>
struct buffered : streams_of<Memory> {
    using streams_of<Memory>::streams_of;
    using block = std::optional<rmm::device_buffer>;

    block allocate(uint32_t stream, size_t bytes) {
        return block(std::in_place, bytes, this->streams[stream], this->memory.resource);
    }
    void release(uint32_t, block& block) { block.reset(); }
};

}  // namespace

namespace timed {

void attach() { check(cudaSetDevice(0)); }

std::unique_ptr<peer> open(uint32_t setting, uint32_t streams) {
    attach();
    switch (setting) {
        case 0: return std::make_unique<timed_peer<bare<cuda_async>>>(streams);
        case 1: return std::make_unique<timed_peer<buffered<cuda_async>>>(streams);
        case 2: return std::make_unique<timed_peer<bare<pool>>>(streams);
        case 3: return std::make_unique<timed_peer<buffered<pool>>>(streams);
        case 4: return std::make_unique<timed_peer<bare<arena>>>(streams);
        case 5: return std::make_unique<timed_peer<buffered<arena>>>(streams);
        default: throw std::out_of_range("no such setting");
    }
}

}  // namespace timed

extern "C" {

const char* peer_who(void) { return "rmm"; }

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
const char* peer_version(void) {
    return TEXT(RMM_VERSION_MAJOR) "." TEXT(RMM_VERSION_MINOR) "." TEXT(RMM_VERSION_PATCH);
}

const char* peer_setting(uint32_t setting) {
    static const char* const names[] = {"cuda_async", "cuda_async, device_buffer", "pool",
                                        "pool, device_buffer", "arena", "arena, device_buffer"};
    return setting < 6 ? names[setting] : nullptr;
}

// An arena takes all its memory at once: 16 of them would not fit.
int peer_own(uint32_t setting) { return setting < 4; }

}  // extern "C"
