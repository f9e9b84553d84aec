#pragma once

#include <cstdint>
#include <string>

#include "titan/config/fields.h"

namespace titan {

/// Which numbers are reported, how often and where.
struct MetricsConfig {
  int64_t log_freq = 10;
  bool enable_tensorboard = false;
  bool disable_color_printing = false;
  std::string save_tb_folder = "tb";
  bool save_for_all_ranks = false;
  bool enable_wandb = false;
  bool enable_jsonl = false;
  std::string save_jsonl_file = "metrics.jsonl";

  void describe(Fields& f) {
    f("log_freq", log_freq, "Steps between reports; step 1 is always reported");
    f("enable_tensorboard", enable_tensorboard, "Write TensorBoard event files");
    f("disable_color_printing", disable_color_printing, "No colour codes in log lines");
    f("save_tb_folder", save_tb_folder, "Folder of the event files, under dump_folder");
    f("save_for_all_ranks", save_for_all_ranks,
      "Write the files of every rank, in folders rank_N; else of rank 0 only");
    f("enable_wandb", enable_wandb,
      "Weights & Biases; set metrics.enable_jsonl and send its file: python3 -c \"import json, wandb; run = "
      "wandb.init(); [run.log(json.loads(line)) for line in open('outputs/metrics.jsonl')]\"",
      Status::refused);
    f("enable_jsonl", enable_jsonl, "Write each report as a line of JSON");
    f("save_jsonl_file", save_jsonl_file, "The file of those lines, under dump_folder");
  }

  void validate() const;
};

}  // namespace titan
