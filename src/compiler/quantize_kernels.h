// int8, errors, widening and packing. Included as quantize_lanes.h is.

constexpr float kInt8Levels = 127.0F;

/// Sums in the making.
struct ErrorLanes {
  Floats squares;
  Floats errors;
  Floats weighted;
  Floats weighted_errors;
  Floats largest_value;
  Floats largest_error;
};

inline void add_errors(const Floats& x, const Floats& error, const Floats& weight,
                       ErrorLanes& lanes) {
  lanes.squares += x * x;
  lanes.errors += error * error;
  lanes.weighted += weight * x * x;
  lanes.weighted_errors += weight * error * error;
  lanes.largest_value = largest(magnitude(x), lanes.largest_value);
  lanes.largest_error = largest(magnitude(error), lanes.largest_error);
}

inline void add_to(ErrorSums& sums, const ErrorLanes& lanes) {
  sums.add({sum(lanes.squares), sum(lanes.errors), sum(lanes.weighted), sum(lanes.weighted_errors),
            largest_lane(lanes.largest_value), largest_lane(lanes.largest_error)});
}

inline float root_mean_square(const float* values, std::size_t size) {
  Floats squares = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Floats x = load_some(values + i, size - i);
    squares += x * x;
  }
  return std::sqrt(sum(squares) / static_cast<float>(size));
}

/// The largest magnitude; not finite where a value is not.
inline float reach_of(const float* values, std::size_t size) {
  Floats reach = {};
  Ints odd = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Floats x = load_some(values + i, size - i);
    odd |= (x - x) != Floats{};
    reach = largest(magnitude(x), reach);
  }
  return any(odd) ? std::numeric_limits<float>::quiet_NaN() : largest_lane(reach);
}

QuantStatus quantize_int8(const GroupsToQuantize& work, ErrorSums& sums) {
  for (std::size_t group = 0; group < work.count; ++group) {
    const float* const values = work.values + group * work.group;
    const float reach = reach_of(values, work.group);
    if (!std::isfinite(reach)) return QuantStatus::kNotFinite;
    const std::uint16_t bits = model::float_to_half(reach / kInt8Levels);
    const float scale = model::half_to_float(bits);
    if (!std::isfinite(scale)) return QuantStatus::kTooLarge;
    work.scales[group] = bits;
    const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
    const Floats mean = all(root_mean_square(values, work.group));
    ErrorLanes errors = {};
    for (std::size_t i = 0; i < work.group; i += kLanes) {
      const std::size_t left = work.group - i;
      const Floats x = load_some(values + i, left);
      const Floats nearest = rounded(x * inverse);
      const Floats quant = smallest(largest(nearest, all(-kInt8Levels)), all(kInt8Levels));
      add_errors(x, x - quant * scale, magnitude(x) + mean, errors);
      const Bytes bytes = to_bytes(quant);
      std::memcpy(work.quants + group * work.group + i, &bytes, left < kLanes ? left : kLanes);
    }
    add_to(sums, errors);
  }
  return QuantStatus::kDone;
}

void measure(const float* values, const float* stored, std::size_t size, ErrorSums& sums) {
  const Floats mean = all(root_mean_square(values, size));
  ErrorLanes errors = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Floats x = load_some(values + i, size - i);
    add_errors(x, x - load_some(stored + i, size - i), magnitude(x) + mean, errors);
  }
  add_to(sums, errors);
}

/// Halves as floats: the exponent is 112 too low after the shift, which a product mends, also of
/// subnormal ones.
inline Floats from_halves(const Shorts& halves) {
  const Words bits = __builtin_convertvector(halves, Words);
  const Words magnitude = bits & 0x7fffU;
  const Words finite = to_bits(from_bits(magnitude << 13) * 0x1p112F);
  const Words special = (magnitude << 13) | 0x7f800000U;  // infinity, NaN
  return from_bits((magnitude >= 0x7c00U ? special : finite) | ((bits & 0x8000U) << 16));
}

inline Floats from_bfloats(const Shorts& bfloats) {
  return from_bits(__builtin_convertvector(bfloats, Words) << 16);
}

template <Floats (*convert)(const Shorts&)>
inline void widen(const std::byte* bits, float* values, std::size_t size) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Floats wide = convert(load_shorts(bits + 2 * i));
    std::memcpy(values + i, &wide, sizeof(wide));
  }
  if (i == size) return;
  Shorts rest = {};
  std::memcpy(&rest, bits + 2 * i, 2 * (size - i));
  const Floats wide = convert(rest);
  std::memcpy(values + i, &wide, sizeof(float) * (size - i));
}
void widen_halves(const std::byte* bits, float* values, std::size_t size) {
  widen<from_halves>(bits, values, size);
}
void widen_bfloats(const std::byte* bits, float* values, std::size_t size) {
  widen<from_bfloats>(bits, values, size);
}

void pack(const std::int8_t* quants, std::size_t pairs, std::byte* packed) {
  std::size_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    const Shorts both = load_shorts(quants + 2 * i);  // the first is the low byte
    const Bytes joined = __builtin_convertvector((both & 0xf) | (both >> 4 & 0xf0), Bytes);
    std::memcpy(packed + i, &joined, sizeof(joined));
  }
  for (; i < pairs; ++i) {
    packed[i] = static_cast<std::byte>((quants[2 * i] & 0xf) | (quants[2 * i + 1] & 0xf) << 4);
  }
}
