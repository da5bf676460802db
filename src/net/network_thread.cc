#include "net/network_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "base/check.h"

namespace paceline::net {

namespace asio = boost::asio;

struct NetworkThread::Work {
  asio::executor_work_guard<asio::io_context::executor_type> guard;
};

NetworkThread::NetworkThread()
    : context_(std::make_shared<asio::io_context>(1)),
      work_(new Work{asio::make_work_guard(*context_)}),
      thread_([context = context_] { context->run(); }) {}

NetworkThread::~NetworkThread() {
  PACELINE_CHECK(!is_current());
  work_.reset();
  thread_.join();
}

bool NetworkThread::is_current() const { return std::this_thread::get_id() == thread_.get_id(); }

void NetworkThread::post(std::function<void()> task) { asio::post(*context_, std::move(task)); }

void NetworkThread::run(const std::function<void()>& task) {
  if (is_current()) {
    task();
    return;
  }
  std::promise<void> done;
  post([&task, &done] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace paceline::net
