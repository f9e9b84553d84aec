#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "titan/config/fields.h"

namespace titan {

/// How ranks are connected.
enum class CommMode { standard, fake_backend, local_tensor, torchcomms };
template <>
inline constexpr auto names<CommMode> =
    std::to_array<Named<CommMode>>({{"default", CommMode::standard},
                                    {"fake_backend", CommMode::fake_backend},
                                    {"local_tensor", CommMode::local_tensor},
                                    {"torchcomms", CommMode::torchcomms}});

/// Communication between ranks.
struct CommConfig {
  int64_t init_timeout_seconds = 300;
  int64_t train_timeout_seconds = 100;
  int64_t trace_buf_size = 20000;
  std::string save_traces_folder = "comm_traces";
  std::string save_traces_file_prefix = "rank_";
  CommMode mode = CommMode::standard;

  void describe(Fields& f) {
    f("init_timeout_seconds", init_timeout_seconds,
      "Seconds a rank waits for the others until the first step is done");
    f("train_timeout_seconds", train_timeout_seconds,
      "Seconds a rank waits for the others after the first step");
    f("trace_buf_size", trace_buf_size, "Entries of the flight recorder", Status::refused);
    f("save_traces_folder", save_traces_folder, "Folder of its files, under dump_folder", Status::refused);
    f("save_traces_file_prefix", save_traces_file_prefix, "Start of their names", Status::refused);
    f("mode", mode, "How ranks are connected", Status::refused);
  }

  void validate() const;
};

}  // namespace titan
