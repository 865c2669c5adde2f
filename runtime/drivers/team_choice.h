// SPDX-License-Identifier: Apache-2.0
// Whether a launch runs on OpenMP's threads or on the pool's: on those that lately took less time for their work.
//
// Behind an operator of torch OpenMP's threads hold the cores, and the pool's come late or not at all. Where other
// processes want the cores it is the other way round: a region ends when all of its threads have run, also those that
// have no core, some milliseconds later, while the pool's caller does what its workers do not come to. Neither can be
// seen beforehand, so both are tried: what a launch took is compared with what its programs would take on all threads.
// Whoever was slower is tried again, where there is something to gain, once that costs next to nothing.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

namespace libtile::runtime {

class TeamChoice {
public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool usesTeam() const { return uses_ == kTeam; }

  // A launch ended now, on what usesTeam() said: after so many nanoseconds, where threads that all work all the time
  // take `least`.
  void record(float nanoseconds, float least, Time now) {
    const float slowness = nanoseconds / std::max(least, 1.0F);
    Side &used = sides_[uses_], &other = sides_[1 - uses_];
    used.slowness = (used.slowness + slowness) / 2;
    const bool isTriedAgain = now >= other.mayBeTried;
    const float others = isTriedAgain ? std::min(other.slowness, kBest) : other.slowness;
    if (used.slowness > kClearly * others) {
      const float lost = nanoseconds - least * others;
      const auto wait = static_cast<long long>(kPatience * std::max(lost, 0.0F));
      used.mayBeTried = now + std::min(kLongest, std::chrono::nanoseconds(wait));
      other.slowness = others;
      uses_ = 1 - uses_;
    }
  }

private:
  static constexpr size_t kPool = 0, kTeam = 1;
  // What a launch takes at best, some threads being done before others; how much slower is slower.
  static constexpr float kBest = 1.15F, kClearly = 1.25F;
  // Times what the last try lost; and the most.
  static constexpr float kPatience = 50;
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(5);

  struct Side {
    float slowness = kBest;
    Time mayBeTried{};
  };
  std::array<Side, 2> sides_;
  size_t uses_ = kPool;
};

} // namespace libtile::runtime
