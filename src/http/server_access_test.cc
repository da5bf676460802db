// Who may ask: hosts, origins, media types, keys; and TLS.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "http/client.h"
#include "http/http_testing.h"
#include "http/server.h"

namespace paceline::http {
namespace {

namespace asio = boost::asio;
using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, std::string_view content) {
    std::ofstream(path_ / name) << content;
    return path_ / name;
  }
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      fmt::format("paceline_http_{}_{}", ::getpid(),
                  testing::UnitTest::GetInstance()->current_test_info()->name());
};

int status_of(TestServer& server, std::string_view request) {
  return TestClient(server.port()).ask(request).status;
}

std::string get_from(std::string_view host, std::string_view more = {}) {
  return fmt::format("GET /hello HTTP/1.1\r\nHost: {}\r\n{}\r\n", host, more);
}

TEST(Host, OnLoopbackOnlyKnownNames) {
  TestServer server({.allowed_hosts = {"Paceline.Home"}});
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]", "localhost.", "paceline.home:443"}) {
    EXPECT_EQ(status_of(server, get_from(host)), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "192.168.0.1", "[::2]"}) {
    EXPECT_EQ(status_of(server, get_from(host)), 403) << host;
  }
  for (const char* host :
       {"", "local host", "localhost:x", "localhost:123456", "[::1", "a@localhost"}) {
    EXPECT_EQ(status_of(server, get_from(host)), 400) << host;
  }
  const std::string absolute = "GET http://evil.example/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(status_of(server, absolute), 403);
}

TEST(Host, ElsewhereAnyAddressAndConfiguredNames) {
  TestServer any({.address = "0.0.0.0"});
  EXPECT_EQ(status_of(any, get_from("server.example")), 200);
  TestServer named({.address = "0.0.0.0", .allowed_hosts = {"server.example"}});
  EXPECT_EQ(status_of(named, get_from("server.example")), 200);
  EXPECT_EQ(status_of(named, get_from("10.0.0.1:80")), 200);
  EXPECT_EQ(status_of(named, get_from("other.example")), 403);
}

TEST(Origin, PagesOfOtherSitesAreRefused) {
  TestServer server;
  EXPECT_EQ(status_of(server, get("/hello", "Origin: http://localhost:8000\r\n")), 200);
  for (const char* origin :
       {"https://evil.example", "null", "http://localhost.evil.example", "x"}) {
    EXPECT_EQ(status_of(server, get("/hello", fmt::format("Origin: {}\r\n", origin))), 403)
        << origin;
  }
  TestServer open({.address = "0.0.0.0"});
  EXPECT_EQ(status_of(open, get_from("a.example:80", "Origin: http://a.example:80\r\n")), 200);
  EXPECT_EQ(status_of(open, get_from("a.example:80", "Origin: http://b.example:80\r\n")), 403);
}

TEST(Cors, OnlyForConfiguredOrigins) {
  TestServer server({.cors_origins = {"https://page.example"}});
  TestClient client(server.port());
  const TestResponse plain = client.ask(get("/hello", "Origin: http://localhost:1\r\n"));
  EXPECT_FALSE(plain.headers.contains("access-control-allow-origin"));
  const TestResponse shared = client.ask(get("/hello", "Origin: https://page.example\r\n"));
  EXPECT_EQ(shared.headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(shared.headers.at("vary"), "Origin");
  const TestResponse preflight = client.ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n"
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: content-type,authorization\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "content-type,authorization");
  EXPECT_EQ(client.ask(get("/nothing", "Origin: https://page.example\r\n"))
                .headers.at("access-control-allow-origin"),
            "https://page.example")
      << "pages may read errors too";
}

TEST(MediaType, IsAskedForWhereThereIsABody) {
  TestServer server;
  const auto with_type = [&](const char* path, const char* type) {
    return status_of(server, fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: "
                                         "2\r\n\r\n{{}}",
                                         path, type));
  };
  EXPECT_EQ(with_type("/echo", "Content-Type: application/json\r\n"), 200);
  EXPECT_EQ(with_type("/echo", "Content-Type: Application/JSON; charset=utf-8\r\n"), 200);
  EXPECT_EQ(with_type("/echo", "Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(with_type("/echo", "Content-Type: application/jsonx\r\n"), 415);
  EXPECT_EQ(with_type("/echo", ""), 415);
  EXPECT_EQ(with_type("/upload", "Content-Type: multipart/form-data; boundary=x\r\n"), 200);
  EXPECT_EQ(with_type("/upload", "Content-Type: application/json\r\n"), 415);
  EXPECT_EQ(with_type("/echo", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"),
            415);
  EXPECT_EQ(status_of(server, "POST /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
}

TEST_F(Folder, KeysAreAddedToTheFile) {
  const auto path = write("keys", "# staff\nalice:" + hash_api_key("hers"));  // no end of line
  const auto bobs = ApiKeys::add(path, "bob");
  ASSERT_TRUE(bobs) << bobs.error().message();
  const auto made = path.parent_path() / "new";
  const auto carols = ApiKeys::add(made, "carol");
  ASSERT_TRUE(carols) << carols.error().message();
  EXPECT_NE(*bobs, *carols);
  const auto keys = ApiKeys::open(path);
  ASSERT_TRUE(keys) << keys.error().message();
  EXPECT_EQ((*keys)->tenant("hers"), "alice");
  EXPECT_EQ((*keys)->tenant(*bobs), "bob");
  EXPECT_EQ((*keys)->tenant(*carols), std::nullopt);
  EXPECT_EQ((*ApiKeys::open(made))->tenant(*carols), "carol");

  EXPECT_FALSE(ApiKeys::add(path, "two words"));
  EXPECT_FALSE(ApiKeys::add(path.parent_path() / "no" / "folder", "bob"));
  const auto broken = write("broken", "in clear\n");
  EXPECT_THAT(ApiKeys::add(broken, "bob").error().message(), HasSubstr("line 1"));
}

TEST_F(Folder, KeysAreAskedFor) {
  const std::string key = "pk-" + std::string(64, 'a');
  const auto path = write("keys", "# keys\n\nalice:" + hash_api_key(key) + "\r\n");
  auto keys = ApiKeys::open(path);
  ASSERT_TRUE(keys) << keys.error().message();
  TestServer server({.api_keys = *keys});
  TestClient client(server.port());
  const TestResponse none = client.ask(get("/who"));
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(none.headers.at("www-authenticate"), HasSubstr("Bearer"));
  EXPECT_THAT(none.body, HasSubstr("invalid_api_key"));
  EXPECT_EQ(client.ask(get("/who", "Authorization: Bearer pk-wrong\r\n")).status, 401);
  EXPECT_EQ(client.ask(get("/who", "Authorization: Basic " + key + "\r\n")).status, 401);
  const std::string right = "Authorization: bearer " + key + "\r\n";
  EXPECT_EQ(client.ask(get("/who", right)).body, "tenant:alice");
  EXPECT_EQ(client.ask(get("/open")).body, "tenant:") << "that route needs no key";
  EXPECT_EQ(client.ask(get("/nothing")).status, 404);

  write("keys", "bob:" + hash_api_key("other") + "\n");
  ASSERT_TRUE((*keys)->reload());
  EXPECT_EQ(client.ask(get("/who", right)).status, 401);
  EXPECT_EQ(client.ask(get("/who", "Authorization: Bearer other\r\n")).body, "tenant:bob");
  const auto records = server.records(8);
  ASSERT_EQ(records.size(), 8U);
  EXPECT_EQ(records.back().tenant, "bob");
}

TEST_F(Folder, AChangedFileIsReadByItself) {
  const auto path = write("keys", "alice:" + hash_api_key("first") + "\n");
  auto keys = ApiKeys::open(path);
  ASSERT_TRUE(keys);
  EXPECT_EQ((*keys)->tenant("first"), "alice");
  write("keys", "alice:" + hash_api_key("second") + "\nbob:" + hash_api_key("third") + "\n");
  ::usleep(1'100'000);  // it looks once a second
  EXPECT_EQ((*keys)->tenant("third"), "bob");
  EXPECT_EQ((*keys)->tenant("first"), std::nullopt);
  write("keys", "broken");
  EXPECT_FALSE((*keys)->reload());
  EXPECT_EQ((*keys)->tenant("second"), "alice") << "a broken file changes nothing";
}

TEST_F(Folder, BrokenKeyFilesAreNamed) {
  const auto message = [this](std::string_view content) {
    const auto keys = ApiKeys::open(write("keys", content));
    return keys ? std::string("opened") : keys.error().message();
  };
  EXPECT_THAT(message("a:" + hash_api_key("k") + "\nb:pk-secret\n"),
              testing::AllOf(HasSubstr("keys: line 2"), testing::Not(HasSubstr("secret"))));
  EXPECT_THAT(message("# none\n"), HasSubstr("one line"));
  EXPECT_THAT(message("a b:" + hash_api_key("k")), HasSubstr("line 1"));
  EXPECT_EQ(message("a:" + hash_api_key("k")), "opened");
  EXPECT_FALSE(ApiKeys::open(path_ / "missing"));
  EXPECT_EQ(hash_api_key("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// A self-signed certificate for localhost and its key.
void write_certificate(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  EVP_PKEY* pair = ::EVP_EC_gen("P-256");
  X509* x509 = ::X509_new();
  ::X509_gmtime_adj(X509_getm_notBefore(x509), 0);
  ::X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  ::X509_set_pubkey(x509, pair);
  X509_NAME* name = ::X509_get_subject_name(x509);
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  ::X509_set_issuer_name(x509, name);
  ::X509_sign(x509, pair, ::EVP_sha256());
  FILE* file = std::fopen(certificate.c_str(), "w");
  ::PEM_write_X509(file, x509);
  std::fclose(file);
  file = std::fopen(key.c_str(), "w");
  ::PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  ::X509_free(x509);
  ::EVP_PKEY_free(pair);
}

struct TlsClient {
  TlsClient(std::uint16_t port, int version) {
    context.set_verify_mode(asio::ssl::verify_none);
    ::SSL_set_security_level(stream.native_handle(), 0);  // else it offers no old version
    ::SSL_set_min_proto_version(stream.native_handle(), version);
    ::SSL_set_max_proto_version(stream.native_handle(), version);
    stream.lowest_layer().connect({asio::ip::address_v4::loopback(), port});
    stream.handshake(asio::ssl::stream_base::client, error);
  }
  /// All until the server closes; `error` says how.
  std::string ask(std::string_view request) {
    asio::write(stream, asio::buffer(request), error);
    std::string answer;
    std::array<char, 4096> buffer{};
    while (!error) {
      const std::size_t count = stream.read_some(asio::buffer(buffer), error);
      answer.append(buffer.data(), count);
    }
    return answer;
  }
  asio::io_context loop;
  asio::ssl::context context{asio::ssl::context::tls_client};
  asio::ssl::stream<asio::ip::tcp::socket> stream{loop, context};
  boost::system::error_code error;
};

TEST_F(Folder, TheClientTrustsWhomItWasTold) {
  write_certificate(path_ / "cert.pem", path_ / "key.pem");
  TestServer server({.tls_certificate = path_ / "cert.pem", .tls_key = path_ / "key.pem"});
  const auto ask = [&server](const std::string& host, const std::filesystem::path& trusted) {
    ClientOptions options;
    options.certificates = trusted;
    auto client = Client::make(fmt::format("https://{}:{}", host, server.port()), options);
    return client->ask({"GET", "/hello"});
  };
  const auto answer = ask("localhost", path_ / "cert.pem");
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->body, "hello");
  EXPECT_FALSE(ask("localhost", "").has_value()) << "nobody vouches for it";
  EXPECT_FALSE(ask("127.0.0.1", path_ / "cert.pem").has_value()) << "it has another name";
}

TEST_F(Folder, Tls) {
  write_certificate(path_ / "cert.pem", path_ / "key.pem");
  TestServer server({.header_time = std::chrono::milliseconds(500),
                     .tls_certificate = path_ / "cert.pem",
                     .tls_key = path_ / "key.pem"});
  EXPECT_THAT(server->url(), HasSubstr("https://"));
  TestClient plain(server.port());
  TestClient silent(server.port());
  const std::string closing = "Connection: close\r\n";
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), version);
    ASSERT_FALSE(client.error) << client.error.message();
    EXPECT_EQ(::SSL_version(client.stream.native_handle()), version);
    const std::string answer = client.ask(get("/stream?count=3&bytes=2", closing));
    EXPECT_THAT(answer, HasSubstr("2\r\nxx\r\n2\r\nxx\r\n2\r\nxx\r\n0\r\n\r\n"));
    EXPECT_EQ(client.error, asio::error::eof) << "the session ends in order";
  }
  TlsClient old(server.port(), TLS1_1_VERSION);
  EXPECT_TRUE(old.error);
  TlsClient large(server.port(), TLS1_3_VERSION);
  EXPECT_THAT(large.ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        "application/json\r\nContent-Length: 104857600\r\n\r\n"),
              HasSubstr("413"));
  TlsClient cut(server.port(), TLS1_3_VERSION);
  asio::write(cut.stream, asio::buffer(get("/hold")), cut.error);
  const auto held = server.held.next();
  ASSERT_TRUE(held);
  held->begin_stream({});
  held->write("half");
  held->abort();
  EXPECT_THAT(cut.ask(""), HasSubstr("half"));
  EXPECT_NE(cut.error, asio::error::eof) << "a cut stream is seen as a truncated session";
  plain.send(get("/hello"));
  EXPECT_EQ(plain.read_response().status, 0);
  EXPECT_TRUE(silent.is_closed_by_server()) << "a handshake that does not come is not waited for";
}

TEST_F(Folder, TlsErrorsNameTheFile) {
  write_certificate(path_ / "cert.pem", path_ / "key.pem");
  write_certificate(path_ / "other.pem", path_ / "other_key.pem");
  write("broken.pem", "no PEM");
  const auto message = [this](const char* certificate, const char* key) {
    ServerOptions options;
    options.tls_certificate = path_ / certificate;
    options.tls_key = path_ / key;
    const auto server = Server::start(std::move(options), Router());
    return server ? std::string("started") : server.error().message();
  };
  EXPECT_EQ(message("cert.pem", "key.pem"), "started");
  EXPECT_THAT(message("missing.pem", "key.pem"), HasSubstr("missing.pem"));
  EXPECT_THAT(message("broken.pem", "key.pem"), HasSubstr("broken.pem"));
  EXPECT_THAT(message("cert.pem", "broken.pem"), HasSubstr("broken.pem"));
  EXPECT_THAT(message("cert.pem", "other_key.pem"), HasSubstr("other_key.pem"));
}

}  // namespace
}  // namespace paceline::http
