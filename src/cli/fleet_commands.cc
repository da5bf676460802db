// paceline ps, top, load and unload: a server's models, seen and changed from outside.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/fleet_view.h"
#include "cli/interrupt.h"
#include "cli/server_client.h"
#include "cli/terminal_screen.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

/// Loads take minutes, in which the server has nothing to say.
constexpr auto kLoadSilence = std::chrono::hours(4);

struct FleetFlags {
  ServerFlags server;
  bool as_json = false;
  double interval = 1;
  std::string model;
  std::string path;
  std::optional<double> drain_seconds;
};

std::string dump(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

/// What other servers do not have is left out; that there are models is all they must say.
Result<FleetView> look(const ServerFlags& server) {
  PACELINE_ASSIGN_OR_RETURN(auto client, server.client(&interrupt_flag()));
  PACELINE_ASSIGN_OR_RETURN(auto root, server.root_client(&interrupt_flag()));
  PACELINE_ASSIGN_OR_RETURN(const auto models, ask_json(client, {"GET", "/models"}));
  FleetView view;
  view.url = server.url;
  const auto health = root.ask({"GET", "/health"});
  view.is_healthy = health && health->status == 200;
  if (const auto version = ask_json(root, {"GET", "/version"})) {
    view.version = printable(text_of(*version, "version"), 32);
  }
  obs::MetricsText metrics;
  if (const auto text = ask(root, {"GET", "/metrics"})) {
    auto parsed = obs::MetricsText::parse(*text);
    if (!parsed) return fail(parsed.error().with_context("the server: /metrics"));
    metrics = *std::move(parsed);
  }
  view.models = model_views(models, metrics);
  return view;
}

Status show_fleet(const FleetFlags& flags) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto view, look(flags.server));
  fmt::print("{}", flags.as_json ? dump(to_json(view)) + "\n" : fleet_table(view));
  return {};
}

/// Two looks and what became of each model between them.
class Observer {
 public:
  explicit Observer(const ServerFlags& server) : server_(server) {}

  Status look_again() {
    PACELINE_ASSIGN_OR_RETURN(auto view, look(server_));
    const TimePoint now = clock_.now();
    rates_.clear();
    for (const ModelView& model : view.models) {
      for (const ModelView& earlier : view_.models) {
        if (earlier.name != model.name) continue;
        rates_[model.name] = rates_of(earlier, model, to_seconds(now - looked_));
      }
    }
    view_ = std::move(view);
    looked_ = now;
    return {};
  }

  std::string screen(std::size_t width) const { return fleet_screen(view_, rates_, width); }
  ordered_json json() const {
    ordered_json json = to_json(view_);
    for (ordered_json& model : json["models"]) {
      const auto found = rates_.find(model["name"].get<std::string>());
      if (found != rates_.end()) model["now"] = to_json(found->second);
    }
    return json;
  }

 private:
  const ServerFlags& server_;
  const SteadyClock clock_;
  FleetView view_;
  TimePoint looked_;
  std::map<std::string, ModelRates> rates_;
};

Status show_snapshot(const FleetFlags& flags, Observer& observer) {
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  PACELINE_RETURN_IF_ERROR(observer.look_again());
  if (flags.as_json) {
    fmt::print("{}\n", dump(observer.json()));
  } else {
    fmt::print("{}", observer.screen(TerminalScreen::kDefaultWidth));
  }
  return {};
}

Status show_top(const FleetFlags& flags) {
  interrupt_flag();
  Observer observer(flags.server);
  PACELINE_RETURN_IF_ERROR(observer.look_again());
  if (flags.as_json || !TerminalScreen::is_there()) return show_snapshot(flags, observer);
  TerminalScreen screen(interrupt_flag());
  const auto interval = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.interval));
  while (true) {
    screen.show(observer.screen(screen.width()));
    if (screen.wait_for_end(interval)) return {};
    const Status looked = observer.look_again();
    if (!looked && interrupt_flag().load()) return {};
    if (!looked) return looked;
  }
}

Status ask_for(const FleetFlags& flags, const std::string& verb, const ordered_json& body) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(auto client, flags.server.client(&interrupt_flag(), kLoadSilence));
  PACELINE_ASSIGN_OR_RETURN(
      const auto model,
      ask_json(client, {"POST", "/models/" + verb, "application/json",
                        body.dump(-1, ' ', false, ordered_json::error_handler_t::replace)}));
  if (flags.as_json) {
    fmt::print("{}\n", dump(model));
  } else {
    fmt::print("{}: {}\n", printable(text_of(model, "id")), printable(text_of(model, "status")));
  }
  return {};
}

Status load(const FleetFlags& flags) {
  ordered_json body = {{"model", flags.model}};
  if (!flags.path.empty()) body["path"] = flags.path;
  return ask_for(flags, "load", body);
}

Status unload(const FleetFlags& flags) {
  ordered_json body = {{"model", flags.model}};
  if (flags.drain_seconds) body["drain_seconds"] = *flags.drain_seconds;
  return ask_for(flags, "unload", body);
}

using Run = Status (*)(const FleetFlags&);

CLI::App* add(CLI::App& app, Status& done, const std::shared_ptr<FleetFlags>& flags,
              const std::pair<const char*, const char*>& name, Run run) {
  CLI::App* command = app.add_subcommand(name.first, name.second);
  flags->server.add_to(*command);
  command->add_flag("--json", flags->as_json, "As JSON");
  command->callback([flags, run, &done] { done = run(*flags); });
  return command;
}

}  // namespace

void add_fleet_commands(CLI::App& app, Status& done) {
  const auto flags = std::make_shared<FleetFlags>();
  add(app, done, flags, {"ps", "List a server's models: state, stages, requests, KV"}, show_fleet);
  CLI::App* top =
      add(app, done, flags, {"top", "Watch a server's models and stages; q ends"}, show_top);
  top->add_option("--interval", flags->interval, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  CLI::App* loading = add(app, done, flags, {"load", "Have a server load a model"}, load);
  loading->add_option("name", flags->model, "What requests call it")->required();
  loading->add_option("--path", flags->path,
                      "Its package, below a --model-dir of the server; without it the package of "
                      "that name");
  CLI::App* unloading = add(app, done, flags, {"unload", "Have a server unload a model"}, unload);
  unloading->add_option("name", flags->model, "One of its names")->required();
  unloading
      ->add_option("--drain-seconds", flags->drain_seconds,
                   "How long answers under way may take; without it as the server has it")
      ->check(CLI::Range(0.0, 86400.0));
}

}  // namespace paceline::cli
