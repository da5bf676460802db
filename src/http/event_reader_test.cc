#include "http/event_reader.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace paceline::http {
namespace {

using testing::ElementsAre;

std::vector<std::string> events_of(std::string_view text, std::size_t step) {
  EventReader reader;
  std::vector<std::string> events;
  const auto keep = [&events](std::string_view data) {
    events.emplace_back(data);
    return true;
  };
  for (std::size_t at = 0; at < text.size(); at += step) {
    EXPECT_TRUE(reader.add(text.substr(at, step), keep));
  }
  return events;
}

TEST(EventReaderTest, TheSameHoweverTheBytesAreDivided) {
  constexpr std::string_view kStream =
      ": ping\n\nevent: x\ndata: {\"a\": 1}\n\ndata:b\r\n\r\nid: 5\n\ndata: one\ndata: two\n\n"
      "data\n\ndatax: no\n\ndata: [DONE]\n\ndata: not whole\n";
  for (std::size_t step = 1; step < kStream.size(); ++step) {
    EXPECT_THAT(events_of(kStream, step), ElementsAre("{\"a\": 1}", "b", "one\ntwo", "", "[DONE]"))
        << step;
  }
}

TEST(EventReaderTest, EndsWhereItIsToldTo) {
  EventReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.add("data: a\n\ndata: b\n\n", [&seen](std::string_view) {
    ++seen;
    return false;
  }));
  EXPECT_EQ(seen, 1);
}

TEST(EventReaderTest, WhatHasNoEndIsBounded) {
  const auto never = [](std::string_view) { return true; };
  EventReader line;
  const std::string piece(1 << 20, 'x');
  int taken = 0;
  while (line.add(piece, never) && taken < 100) ++taken;
  EXPECT_LE(taken, 4);
  EventReader event;
  const std::string data = "data: " + piece + "\n";
  taken = 0;
  while (event.add(data, never) && taken < 100) ++taken;
  EXPECT_LE(taken, 4);
}

}  // namespace
}  // namespace paceline::http
