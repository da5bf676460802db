// What each subcommand's file offers to commands.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"
#include "cli/settings_file.h"

namespace paceline::cli {

/// Each adds its subcommand to `app`; when it is chosen, its callback stores the outcome in `done`.
void add_batch_command(CLI::App& app, Status& done);
void add_bench_command(CLI::App& app, Status& done);
void add_chat_command(CLI::App& app, Status& done);
void add_compile_command(CLI::App& app, Status& done);
/// `file`: what --config says.
void add_config_command(CLI::App& app, Status& done, const std::string& file);
void add_doctor_command(CLI::App& app, Status& done);
/// ps, top, load and unload.
void add_fleet_commands(CLI::App& app, Status& done);
void add_generate_command(CLI::App& app, Status& done);
void add_inspect_command(CLI::App& app, Status& done);
void add_key_command(CLI::App& app, Status& done);
void add_precompile_command(CLI::App& app, Status& done);
void add_relay_command(CLI::App& app, Status& done);
void add_run_command(CLI::App& app, Status& done);
/// `entries`: of configuration files; it looks at [model.NAME]. They must outlive the command.
void add_serve_command(CLI::App& app, Status& done, const SettingsEntries& entries);
void add_shard_command(CLI::App& app, Status& done);
void add_verify_command(CLI::App& app, Status& done);
void add_worker_command(CLI::App& app, Status& done);

}  // namespace paceline::cli
