#include "compiler/ir_xml.h"

#include <sstream>
#include <streambuf>
#include <string_view>
#include <utility>

#include <openvino/op/constant.hpp>
#include <openvino/pass/serialize.hpp>

#include "cut/openvino_error.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

/// Takes everything, keeps only how much it was.
class CountingBuffer final : public std::streambuf {
 protected:
  int_type overflow(int_type character) override {
    ++count_;
    return traits_type::not_eof(character);
  }
  std::streamsize xsputn(const char*, std::streamsize count) override {
    count_ += count;
    return count;
  }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(count_);
  }

 private:
  std::streamsize count_ = 0;
};

/// Appends constants that have no place yet; equal bytes get one place.
Status append_small_constants(const ov::Model& model, std::map<std::string, std::uint64_t>& offsets,
                              BinFile& bin) {
  std::map<std::string, std::uint64_t, std::less<>> known;
  for (const auto& node : model.get_ordered_ops()) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
    if (!constant || offsets.contains(constant->get_friendly_name())) continue;
    const auto* data = static_cast<const char*>(constant->get_data_ptr());
    const std::string_view bytes(data, constant->get_byte_size());
    auto found = known.find(bytes);
    if (found == known.end()) {
      const std::uint64_t offset = bin.reserve(bytes.size());
      PACELINE_RETURN_IF_ERROR(
          bin.write(offset, std::as_bytes(std::span(bytes.data(), bytes.size()))));
      found = known.emplace(bytes, offset).first;
    }
    offsets.emplace(constant->get_friendly_name(), found->second);
  }
  return bin.flush();
}

/// The value of ` name="..."` in an element's text; empty where it is not there.
std::string_view attribute(std::string_view element, std::string_view name) {
  const std::string opening = fmt::format(" {}=\"", name);
  const std::size_t begin = element.find(opening);
  if (begin == std::string_view::npos) return {};
  const std::size_t value = begin + opening.size();
  return element.substr(value, element.find('"', value) - value);
}

/// The text from `begin` to the next '>'.
std::string_view tag(std::string_view xml, std::size_t begin) {
  return xml.substr(begin, xml.find('>', begin) - begin);
}

}  // namespace

Result<std::string> place_constants(std::string_view xml,
                                    const std::map<std::string, std::uint64_t>& offsets) {
  std::string result;
  result.reserve(xml.size() + xml.size() / 16);
  std::size_t copied = 0;
  for (std::size_t at = xml.find("<layer "); at != std::string_view::npos;
       at = xml.find("<layer ", at + 1)) {
    const std::string_view layer = tag(xml, at);
    if (attribute(layer, "type") != "Const") continue;
    const std::string_view data = tag(xml, xml.find("<data ", at));
    const std::string_view offset = attribute(data, "offset");
    const auto place = offsets.find(std::string(attribute(layer, "name")));
    if (place == offsets.end() || offset.empty()) {
      return fail(ErrorCode::kInternal, "the constant {} has no place in the .bin",
                  attribute(layer, "name"));
    }
    const auto begin = static_cast<std::size_t>(offset.data() - xml.data());
    result += xml.substr(copied, begin - copied);
    result += std::to_string(place->second);
    copied = begin + offset.size();
  }
  result += xml.substr(copied);
  return result;
}

Status write_ir_xml(const std::shared_ptr<ov::Model>& model,
                    std::map<std::string, std::uint64_t> offsets, BinFile& bin,
                    const std::filesystem::path& path) {
  PACELINE_RETURN_IF_ERROR(append_small_constants(*model, offsets, bin));
  std::ostringstream xml;
  PACELINE_RETURN_IF_ERROR(cut::catch_openvino("cannot write the graph", [&] {
    CountingBuffer nowhere;
    std::ostream bytes(&nowhere);
    ov::pass::Serialize(xml, bytes).run_on_model(model);
  }));
  PACELINE_ASSIGN_OR_RETURN(const std::string placed, place_constants(xml.view(), offsets));
  return system::write_file_atomically(path, placed);
}

}  // namespace paceline::compiler
