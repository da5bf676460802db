// What a stage's steps take, learned from those that it computed.
#pragma once

#include <cstdint>
#include <map>

#include "spec/step_cost.h"

namespace paceline::sched {

/// Old observations fade. Thread-compatible.
class LearnedCost {
 public:
  /// A step of `rows` rows (at least 1) was computed in `us`.
  void observe(std::uint32_t rows, double us);

  /// Through the means of steps of like sizes: up to 16 rows each number for itself, since kernels
  /// work in tiles and one row more may cost as much as all before it. Rises with the rows.
  const spec::StepCost& cost() const { return cost_; }
  /// The standard deviation of a step's time, as a share of it.
  double jitter() const { return jitter_; }

 private:
  struct Mean {
    double rows = 0;
    double us = 0;
    double steps = 0;  ///< that it stands for
  };

  void remake();

  std::map<std::uint32_t, Mean> means_;  ///< by the class of the rows
  spec::StepCost cost_;
  double jitter_ = 0;
  double compared_ = 0;  ///< steps that jitter_ stands for
};

}  // namespace paceline::sched
