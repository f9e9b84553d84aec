// What the trainer asks of the machine and tells the user about it: peak rates, memory, progress, signals.
#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "titan/base/error.h"
#include "titan/train/device_memory.h"
#include "titan/train/interrupt.h"
#include "titan/train/peak_flops.h"
#include "titan/train/progress.h"

namespace titan {

TEST_CASE("The peak table finds devices by part of their name, longer names first") {
  CHECK(*table_peak_flops("NVIDIA H100 80GB HBM3") == 989e12);
  CHECK(*table_peak_flops("NVIDIA H100 NVL") == 835e12);
  CHECK(*table_peak_flops("NVIDIA H100 PCIe") == 756e12);
  CHECK(*table_peak_flops("NVIDIA H200") == 989e12);
  CHECK(*table_peak_flops("NVIDIA H20") == 148e12);
  CHECK(*table_peak_flops("NVIDIA A100-SXM4-80GB") == 312e12);
  CHECK(*table_peak_flops("NVIDIA GB200") == 2.5e15);
  CHECK(*table_peak_flops("NVIDIA B200") == 2.25e15);
  CHECK(*table_peak_flops("trn2.48xlarge") == 158e12);
  CHECK_FALSE(table_peak_flops("AMD EPYC").has_value());
}

TEST_CASE("Unknown accelerators get the reference's assumption, a CPU its measured rate") {
  CHECK(peak_flops("cuda", "Mystery 9000").flops == 312e12);
  CHECK(peak_flops("neuron", "neuron").flops == 158e12);
  const PeakFlops cpu = peak_flops("cpu", "AMD EPYC");
  CHECK(cpu.flops > 1e8);   // slower than any machine that can run this
  CHECK(cpu.flops < 1e14);  // faster than any CPU
  CHECK(cpu.source.find("measured") != std::string::npos);
}

TEST_CASE("Peak memory counts memory that was touched") {
  const DeviceInfo cpu = device_info("cpu");
  CHECK(cpu.capacity_bytes > (int64_t{1} << 28));
  const double before = peak_memory(cpu).max_reserved_gib;
  std::string large(size_t{1} << 28, 'x');
  large[large.size() / 2] = 'y';
  const MemoryStats after = peak_memory(cpu);
  CHECK(after.max_reserved_gib >= before);
  CHECK(after.max_reserved_gib >= 0.25);
  const double percent =
      100.0 * after.max_reserved_gib * 1024 * 1024 * 1024 / static_cast<double>(cpu.capacity_bytes);
  CHECK(after.max_reserved_pct == doctest::Approx(percent));
}

TEST_CASE("A device without a row is refused by name") {
  CHECK_THROWS_WITH_AS(device_info("cuda"), doctest::Contains("--device cuda"), ConfigError);
}

TEST_CASE("The progress text says step, share, rate and time left and stays shorter than a log line's head") {
  CHECK(progress_text(30, 300, 2.5) == "30/300 10% 2.50/s 1m48s left");
  CHECK(progress_text(1, 10, 0.0).find("? left") != std::string::npos);
  CHECK(progress_text(123456789, 987654321, 1e-9).size() <= 44);
}

TEST_CASE("Durations use two units") {
  CHECK(human_duration(59.4) == "59s");
  CHECK(human_duration(60) == "1m00s");
  CHECK(human_duration(3 * 3600 + 125) == "3h02m");
  CHECK(human_duration(49 * 3600) == "2d01h");
}

TEST_CASE("The first SIGINT is remembered, and forgotten with the guard") {
  {
    const InterruptGuard guard;
    CHECK(guard.signal() == 0);
    std::raise(SIGINT);
    CHECK(guard.signal() == SIGINT);
    CHECK(signal_exit_code(guard.signal()) == 130);
    CHECK(signal_name(guard.signal()) == "SIGINT");
  }
  const InterruptGuard next;
  CHECK(next.signal() == 0);
  std::raise(SIGTERM);
  CHECK(signal_exit_code(next.signal()) == 143);
}

}  // namespace titan
