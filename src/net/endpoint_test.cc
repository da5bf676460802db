#include "net/endpoint.h"

#include <gtest/gtest.h>

namespace paceline::net {
namespace {

TEST(EndpointTest, HostsAndPortsAreTakenApart) {
  EXPECT_EQ(parse_endpoint("desk-4.lan:7000").value(), (Endpoint{"desk-4.lan", 7000}));
  EXPECT_EQ(parse_endpoint("127.0.0.1:0").value(), (Endpoint{"127.0.0.1", 0}));
  EXPECT_EQ(parse_endpoint("[::1]:65535").value(), (Endpoint{"::1", 65535}));
  for (const char* text : {"desk-4.lan:7000", "[::1]:65535", "10.0.0.1:0"}) {
    EXPECT_EQ(parse_endpoint(text).value().to_string(), text);
  }
}

TEST(EndpointTest, AllElseIsRefusedWithWhatWasExpected) {
  for (const char* text : {"", ":", "host", "host:", ":80", "host:65536", "host:-1", "host:+1",
                           "host:80x", "host: 80", "::1:80", "[::1]", "[::1]80", "[host]:80",
                           "[]:80", "a b:80", "http://host:80", "host\n:80"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(endpoint.error().message().find("expected HOST:PORT"), std::string::npos);
  }
}

TEST(EndpointTest, OnlyThisMachineIsLoopback) {
  for (const char* host : {"127.0.0.1", "127.9.8.7", "::1", "localhost", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback({host, 1})) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "localhost.example.com",
                           "desk", "::ffff:10.0.0.1", "", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback({host, 1})) << host;
  }
}

}  // namespace
}  // namespace paceline::net
