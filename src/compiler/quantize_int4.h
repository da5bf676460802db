// int4, sixteen groups at a time: each has a lane, so that nothing is added across lanes, and the
// search for one group's scale takes no branch of another's. Included as quantize_lanes.h is.

constexpr std::size_t kLargestGroup = 128;

/// Lane l of each vector is of group l; vectors go along the groups' elements.
struct Batch {
  std::size_t size;    ///< elements of a group
  std::size_t groups;  ///< lanes in use; the others hold zeros
  Floats values[kLargestGroup];
  Floats weight[kLargestGroup];
  Floats weighted[kLargestGroup];  ///< weight * value
};

/// Element i of group g goes to lane g of vector i, four groups by four elements at a time.
inline void fill(const float* values, Batch& batch) {
  static constexpr float kZeros[kLargestGroup] = {};
  float* const target = reinterpret_cast<float*>(batch.values);
  for (std::size_t lane = 0; lane < kLanes; lane += 4) {
    const float* rows[4];
    for (std::size_t i = 0; i < 4; ++i) {
      rows[i] = lane + i < batch.groups ? values + (lane + i) * batch.size : kZeros;
    }
    for (std::size_t i = 0; i < batch.size; i += 4) {
      transpose(rows, i, target + i * kLanes + lane);
    }
  }
}

/// A value's weight is its magnitude and the root mean square of its group.
inline void set_weights(Batch& batch) {
  Floats squares = {};
  for (std::size_t i = 0; i < batch.size; ++i) squares += batch.values[i] * batch.values[i];
  squares /= static_cast<float>(batch.size);
  Floats mean = {};
  for (std::size_t lane = 0; lane < kLanes; ++lane) mean[lane] = std::sqrt(squares[lane]);
  for (std::size_t i = 0; i < batch.size; ++i) {
    batch.weight[i] = magnitude(batch.values[i]) + mean;
    batch.weighted[i] = batch.weight[i] * batch.values[i];
  }
}

/// What quants can be, less their zero points; and the scales that reach the largest values.
struct Coding {
  Floats low;
  Floats high;
  Floats zero_point;
  Floats scale;
  bool finite;
};

inline Coding coding_of(QuantKind kind, const Batch& batch) {
  Floats low = {};
  Floats high = {};
  Ints odd = {};
  for (std::size_t i = 0; i < batch.size; ++i) {
    const Floats x = batch.values[i];
    odd |= (x - x) != Floats{};  // infinity and NaN less themselves are NaN
    low = smallest(x, low);
    high = largest(x, high);
  }
  if (kind == QuantKind::kInt4) {
    const Floats extreme = -low > high ? low : high;
    return {all(-8.0F), all(7.0F), Floats{}, extreme / -8.0F, !any(odd)};
  }
  const Floats scale = (high - low) / 15.0F;
  // Above 15 it would be only where the scale is subnormal and so is rounded down by much.
  const Floats zero_point = scale > 0.0F ? smallest(rounded(-low / scale), all(15.0F)) : Floats{};
  return {-zero_point, 15.0F - zero_point, zero_point, scale, !any(odd)};
}

/// Scales as they are stored, and their inverses: 0 where a scale is too small for an f16, which
/// makes all quants 0.
struct StoredScales {
  std::uint16_t bits[kLanes];
  Floats value;
  Floats inverse;
  bool finite;
};

inline StoredScales stored(const Floats& scale) {
  StoredScales result;
  result.finite = true;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result.bits[lane] = model::float_to_half(scale[lane]);
    result.value[lane] = model::half_to_float(result.bits[lane]);
    result.finite = result.finite && (result.bits[lane] & 0x7c00) != 0x7c00;
  }
  result.inverse = result.value != 0.0F ? 1.0F / result.value : Floats{};
  return result;
}

inline Floats to_levels(const Floats& x, const Floats& inverse, const Coding& coding) {
  return smallest(largest(rounded(x * inverse), coding.low), coding.high);
}

/// Quants of a batch under its scales, lane by lane as the values lie.
struct Encoded {
  ErrorLanes errors;
  Bytes quants[kLargestGroup];
};

inline void encode(const Batch& batch, const StoredScales& scales, const Coding& coding,
                   Encoded& result) {
  ErrorLanes errors = {};
  for (std::size_t i = 0; i < batch.size; ++i) {
    const Floats x = batch.values[i];
    const Floats quant = to_levels(x, scales.inverse, coding);
    add_errors(x, x - quant * scales.value, batch.weight[i], errors);
    result.quants[i] = to_bytes(quant + coding.zero_point);
  }
  result.errors = errors;
}

/// For each group the scale that lowers its weighted squares most: of the quants that each of
/// kFiner gives, the one that fits them in least squares.
inline Floats search(const Batch& batch, const Coding& coding) {
  const Floats start = coding.scale != 0.0F ? 1.0F / coding.scale : Floats{};
  Floats best_gain = {};
  Floats best_scale = {};
  for (const float finer : kFiner) {
    const Floats inverse = start * finer;
    Floats products = {};
    Floats squares = {};
    for (std::size_t i = 0; i < batch.size; ++i) {
      const Floats quant = to_levels(batch.values[i], inverse, coding);
      products += batch.weighted[i] * quant;
      squares += batch.weight[i] * quant * quant;
    }
    const Floats scale = squares > 0.0F ? products / squares : Floats{};
    const Floats gain = products * scale;
    best_scale = gain > best_gain ? scale : best_scale;
    best_gain = largest(gain, best_gain);
  }
  return best_scale;
}

/// Where `other` has the lower weighted error, its lanes take the place of `result`'s.
inline void take_better(const Batch& batch, const Encoded& other, const StoredScales& other_scales,
                        Encoded& result, StoredScales& scales) {
  ErrorLanes& mine = result.errors;
  const Ints better = other.errors.weighted_errors < mine.weighted_errors;
  mine.errors = better ? other.errors.errors : mine.errors;
  mine.weighted_errors = better ? other.errors.weighted_errors : mine.weighted_errors;
  mine.largest_error = better ? other.errors.largest_error : mine.largest_error;
  const Bytes mask = __builtin_convertvector(better, Bytes);
  for (std::size_t i = 0; i < batch.size; ++i) {
    result.quants[i] = (other.quants[i] & mask) | (result.quants[i] & ~mask);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (better[lane] != 0) scales.bits[lane] = other_scales.bits[lane];
  }
}

/// The inverse of fill, for quants.
inline void take_out(const Batch& batch, const Encoded& encoded, std::int8_t* quants) {
  for (std::size_t begin = 0; begin < batch.size; begin += kLanes) {
    Bytes rows[kLanes];
    transpose(encoded.quants + begin, rows);
    for (std::size_t group = 0; group < batch.groups; ++group) {
      std::memcpy(quants + group * batch.size + begin, &rows[group], sizeof(rows[group]));
    }
  }
}

QuantStatus quantize_int4(const GroupsToQuantize& work, ErrorSums& sums) {
  Batch batch;
  Encoded encoded;
  Encoded searched;
  batch.size = work.group;
  for (std::size_t begin = 0; begin < work.count; begin += kLanes) {
    batch.groups = work.count - begin < kLanes ? work.count - begin : kLanes;
    fill(work.values + begin * batch.size, batch);
    const Coding coding = coding_of(work.kind, batch);
    if (!coding.finite) return QuantStatus::kNotFinite;
    StoredScales scales = stored(coding.scale);
    if (!scales.finite) return QuantStatus::kTooLarge;
    set_weights(batch);
    encode(batch, scales, coding, encoded);
    if (work.search) {
      const StoredScales fitted = stored(search(batch, coding));
      encode(batch, fitted, coding, searched);
      take_better(batch, searched, fitted, encoded, scales);
    }
    add_to(sums, encoded.errors);
    take_out(batch, encoded, work.quants + begin * batch.size);
    std::memcpy(work.scales + begin, scales.bits, batch.groups * sizeof(std::uint16_t));
    if (work.zero_points == nullptr) continue;
    for (std::size_t group = 0; group < batch.groups; ++group) {
      work.zero_points[begin + group] = static_cast<std::uint8_t>(coding.zero_point[group]);
    }
  }
  return QuantStatus::kDone;
}
