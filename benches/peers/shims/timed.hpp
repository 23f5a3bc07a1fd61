// The loops of `peer.h`, for an allocator that is a class:
//
//     struct allocator {
//         struct block;                                          // movable; the default one is empty
//         block allocate(uint32_t stream, size_t bytes);
//         void release(uint32_t stream, block& block);           // leaves it empty
//         void synchronize(uint32_t stream);
//         void drain();
//         void trim();
//         uint64_t reserved();
//     };
//
// Failures are exceptions. A library defines `attach`, `open` and the functions that name things.
#pragma once
#include "peer.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace timed {

inline thread_local std::string error;

struct peer {
    virtual ~peer() = default;
    virtual void drain() = 0;
    virtual void trim() = 0;
    virtual double pairs(uint32_t stream, size_t bytes, uint32_t count, bool synchronise) = 0;
    virtual void fill(const uint64_t* bytes, uint32_t count) = 0;
    virtual double churn(const peer_step* steps, uint32_t count) = 0;
    virtual void empty() = 0;
    virtual double replay(const peer_event* events, uint32_t count, uint32_t blocks, uint64_t* reserved) = 0;
};

class stopwatch {
    using clock = std::chrono::steady_clock;
    clock::time_point start_ = clock::now();

public:
    double nanoseconds() const { return std::chrono::duration<double, std::nano>(clock::now() - start_).count(); }
};

template <class Allocator>
class timed_peer final : public peer {
    Allocator allocator_;
    std::vector<typename Allocator::block> live_;

public:
    template <class... Arguments>
    explicit timed_peer(Arguments&&... arguments) : allocator_(std::forward<Arguments>(arguments)...) {}

    void drain() override { allocator_.drain(); }
    void trim() override { allocator_.trim(); }

    double pairs(uint32_t stream, size_t bytes, uint32_t count, bool synchronise) override {
        stopwatch watch;
        for (uint32_t i = 0; i < count; i++) {
            auto block = allocator_.allocate(stream, bytes);
            allocator_.release(stream, block);
            if (synchronise) allocator_.synchronize(stream);
        }
        return watch.nanoseconds();
    }

    void fill(const uint64_t* bytes, uint32_t count) override {
        live_.reserve(count);
        for (uint32_t i = 0; i < count; i++) live_.push_back(allocator_.allocate(0, bytes[i]));
    }

    double churn(const peer_step* steps, uint32_t count) override {
        stopwatch watch;
        for (uint32_t i = 0; i < count; i++) {
            auto& block = live_[steps[i].block];
            allocator_.release(0, block);
            block = allocator_.allocate(0, steps[i].bytes);
        }
        return watch.nanoseconds();
    }

    void empty() override {
        for (auto& block : live_) allocator_.release(0, block);
        live_.clear();
    }

    double replay(const peer_event* events, uint32_t count, uint32_t blocks, uint64_t* reserved) override {
        std::vector<typename Allocator::block> allocated(blocks);
        std::vector<char> present(blocks);
        double elapsed;
        try {
            stopwatch watch;
            for (uint32_t i = 0; i < count; i++) {
                auto const& event = events[i];
                if (event.bytes != 0) {
                    allocated[event.block] = allocator_.allocate(event.stream, event.bytes);
                } else {
                    allocator_.release(event.stream, allocated[event.block]);
                }
                present[event.block] = event.bytes != 0;
                if (reserved != nullptr) reserved[i] = allocator_.reserved();
            }
            elapsed = watch.nanoseconds();
        } catch (...) {
            release_all(allocated, present);
            throw;
        }
        release_all(allocated, present);
        return elapsed;
    }

private:
    void release_all(std::vector<typename Allocator::block>& blocks, std::vector<char> const& present) {
        for (size_t i = 0; i < blocks.size(); i++)
            if (present[i]) allocator_.release(0, blocks[i]);
    }
};

/// What `call` returns, or `failure`.
template <class Result, class Call>
Result guarded(Result failure, Call&& call) noexcept {
    try {
        return call();
    } catch (std::exception const& exception) {
        error = exception.what();
    } catch (...) {
        error = "an exception of an unknown kind";
    }
    return failure;
}

template <class Call>
int succeeded(Call&& call) noexcept {
    return guarded(-1, [&] {
        call();
        return 0;
    });
}

void attach();
std::unique_ptr<peer> open(uint32_t setting, uint32_t streams);

}  // namespace timed

extern "C" {

const char* peer_error(void) { return timed::error.c_str(); }

void* peer_open(uint32_t setting, uint32_t streams) {
    return timed::guarded<void*>(nullptr, [&]() -> void* { return timed::open(setting, streams).release(); });
}

void peer_close(void* peer) { delete static_cast<timed::peer*>(peer); }

int peer_attach(void*) {
    return timed::succeeded([] { timed::attach(); });
}

int peer_drain(void* peer) {
    return timed::succeeded([&] { static_cast<timed::peer*>(peer)->drain(); });
}

int peer_trim(void* peer) {
    return timed::succeeded([&] { static_cast<timed::peer*>(peer)->trim(); });
}

double peer_pairs(void* peer, uint32_t stream, uint64_t bytes, uint32_t count, int synchronise) {
    return timed::guarded(
        -1.0, [&] { return static_cast<timed::peer*>(peer)->pairs(stream, bytes, count, synchronise != 0); });
}

int peer_fill(void* peer, const uint64_t* bytes, uint32_t count) {
    return timed::succeeded([&] { static_cast<timed::peer*>(peer)->fill(bytes, count); });
}

double peer_churn(void* peer, const peer_step* steps, uint32_t count) {
    return timed::guarded(-1.0, [&] { return static_cast<timed::peer*>(peer)->churn(steps, count); });
}

int peer_empty(void* peer) {
    return timed::succeeded([&] { static_cast<timed::peer*>(peer)->empty(); });
}

double peer_replay(void* peer, const peer_event* events, uint32_t count, uint32_t blocks, uint64_t* reserved) {
    return timed::guarded(
        -1.0, [&] { return static_cast<timed::peer*>(peer)->replay(events, count, blocks, reserved); });
}

}  // extern "C"
