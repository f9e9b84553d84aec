"""Groups over real processes: numbers, and what happens when a rank dies, hangs or does not come."""

import os
import socket
import tempfile
import threading
import time
import unittest

from rank_processes import Ranks, free_port


def groups(out):
    """{axis: (name of the group, kind, hash of the results)} from what a rank printed."""
    lines = [line.split(" ") for line in out.splitlines()]
    return {axis: (name, "gloo" if "Gloo" in kind else "shared" if "Shared" in kind else "lone", bits)
            for axis, name, kind, bits in lines}


def shared_memory_files():
    return set(os.listdir("/dev/shm"))


class Collectives(unittest.TestCase):
    def check(self, size, nodes=1, **variables):
        with Ranks(size, "check", nodes=nodes, **variables) as ranks:
            done = ranks.finish()
        for rank, (code, _, err) in done.items():
            self.assertEqual((code, err), (0, ""), f"rank {rank}")
        return {rank: groups(out) for rank, (_, out, _) in done.items()}

    def test_every_collective_gives_a_sum_in_rank_order_on_2_3_4_and_8_ranks(self):
        before = shared_memory_files()
        for size in (2, 3, 4, 8):
            found = {groups_of["all"] for groups_of in self.check(size).values()}
            self.assertEqual(len(found), 1, "all ranks have the same bits")
            self.assertEqual(next(iter(found))[1], "shared")
        self.assertEqual(shared_memory_files(), before)

    def test_gloo_and_shared_memory_give_the_same_bits(self):
        shared, gloo = self.check(3)[0]["all"], self.check(3, nodes=3)[0]["all"]
        self.assertEqual((shared[1], gloo[1]), ("shared", "gloo"))
        self.assertEqual(shared[2], gloo[2])

    def test_tensors_of_the_neuron_device_give_the_bits_of_the_cpu(self):
        for nodes in (1, 3):
            with tempfile.TemporaryDirectory() as machine:
                found = self.check(3, nodes=nodes, TEST_DEVICE="neuron", TITAN_NEURON_STATE_DIR=machine,
                                   TORCH_NEURONX_NEFF_DISABLE_CACHE=1)
            self.assertEqual(found[0]["all"][2], self.check(3)[0]["all"][2])

    def test_two_launchers_share_memory_within_and_use_gloo_across(self):
        for groups_of in self.check(4, nodes=2, TEST_REPLICATE=2).values():
            kinds = {axis: kind for axis, (_, kind, _) in groups_of.items()}
            self.assertEqual(kinds, {"all": "gloo", "fsdp": "shared", "dp_replicate": "gloo", "tp": "lone"})

    def test_gloo_uses_the_interface_that_the_user_names(self):
        self.assertEqual(self.check(2, nodes=2, GLOO_SOCKET_IFNAME="lo")[0]["all"][1], "gloo")
        with Ranks(2, "check", nodes=2, GLOO_SOCKET_IFNAME="nope0") as ranks:
            for code, _, err in ranks.finish().values():
                self.assertEqual(code, 2, err)
                self.assertRegex(err, r"GLOO_SOCKET_IFNAME is 'nope0', but this machine has no network interface")

    def test_axes_with_the_same_ranks_share_a_group(self):
        names = {axis: name for axis, (name, _, _) in self.check(2)[0].items()}
        self.assertEqual(names["fsdp"], names["all"])
        self.assertNotEqual(names["tp"], names["all"])


class Failures(unittest.TestCase):
    def fails_alike(self, done, pattern):
        for rank, (code, _, err) in done.items():
            self.assertEqual(code, 1, f"rank {rank}: {err}")
            self.assertRegex(err, rf"\A{pattern}\n\Z")
        return next(iter(done.values()))[2]

    def test_a_killed_rank_is_named_by_all_others(self):
        before = shared_memory_files()
        for collective in ("all_gather", "reduce_scatter", "all_reduce"):
            with Ranks(4, collective) as ranks:
                ranks.wait_until_ready()
                time.sleep(0.1)
                dead = ranks.processes[2].pid
                ranks.processes[2].kill()
                done = ranks.finish(besides=[2])
            self.fails_alike(done, rf"{collective} over group all: rank 2 \(process {dead}\) is gone")
        self.assertEqual(shared_memory_files(), before)

    def test_a_rank_that_sleeps_is_named_when_the_time_is_up(self):
        with Ranks(3, "all_reduce", TEST_IDLE_RANK=1, TEST_COLLECTIVE_TIMEOUT_MS=1500) as ranks:
            done = ranks.finish(besides=[1])
        self.fails_alike(done, r"rank 1 has not arrived in all_reduce over group all after 1\.5 s")

    def test_a_rank_that_fails_ends_the_waits_of_the_others(self):
        with Ranks(3, "all_reduce", TEST_THROWING_RANK=1) as ranks:
            done = ranks.finish()
        self.assertEqual(done.pop(1)[2], "this rank fails by itself\n")
        self.fails_alike(done, r"group all: rank 1 has ended with an error")

    def test_gloo_s_failures_name_the_rank_too(self):
        with Ranks(4, "all_gather", nodes=4) as ranks:
            ranks.wait_until_ready()
            ranks.processes[3].kill()
            done = ranks.finish(besides=[3])
        self.fails_alike(done, r"all_gather over group all: rank 3 is gone")
        with Ranks(3, "all_reduce", nodes=3, TEST_IDLE_RANK=1, TEST_COLLECTIVE_TIMEOUT_MS=1500) as ranks:
            done = ranks.finish(besides=[1])
        self.fails_alike(done, r"rank 1 has not arrived in all_reduce over group all after 1\.5 s")


class Rendezvous(unittest.TestCase):
    def ends(self, pattern, size=2, **arguments):
        with Ranks(size, "meet", TEST_TIMEOUT_MS=1500, **arguments) as ranks:
            done = ranks.finish()
        for rank, (code, _, err) in done.items():
            self.assertEqual((code, err.count("\n")), (1, 1), f"rank {rank}: {err}")
            self.assertRegex(err, pattern)

    def test_ranks_that_do_not_come_are_named(self):
        self.ends(r"\Aranks 1, 3 did not arrive within 1\.5 s at 127\.0\.0\.1:\d+\n", size=4, start=[0, 2])

    def test_an_endpoint_where_nobody_listens_is_one_message(self):
        self.ends(r"found no rendezvous at 127\.0\.0\.1:\d+ in 1\.5 s \(Connection refused\); are MASTER_ADDR and",
                  start=[1])
        self.ends(r"found no rendezvous at no\.such\.host\.invalid:", start=[1], MASTER_ADDR="no.such.host.invalid")

    def listener(self, answer):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            kept = []
            while True:
                try:
                    kept.append(listener.accept()[0])
                    kept[-1].sendall(answer)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def test_an_endpoint_of_something_else_is_one_message(self):
        for answer in (b"", b"SSH-2.0-other\r\n"):
            self.ends(r"what listens at 127\.0\.0\.1:\d+ is no rendezvous of this job", start=[1],
                      MASTER_PORT=self.listener(answer))

    def test_a_port_in_use_is_one_message_of_rank_0(self):
        self.ends(r"rank 0 cannot open the rendezvous at 127\.0\.0\.1:\d+ .*address already in use", start=[0],
                  MASTER_PORT=self.listener(b""))

    def test_keys_of_earlier_tries_are_not_seen(self):
        port = free_port()
        shared = {"size": 2, "mode": "meet", "MASTER_PORT": port, "TEST_TIMEOUT_MS": 1500}
        # Rank 0 of the second try opens the store; rank 1 of the first try must not count.
        with Ranks(start=[1], TORCHELASTIC_RESTART_COUNT=0, **shared) as stale, \
                Ranks(start=[0], TORCHELASTIC_RESTART_COUNT=1, **shared) as ranks:
            self.assertIn("rank 1 did not arrive", ranks.finish()[0][2])
            self.assertEqual(stale.finish()[1][0], 1)

    def test_one_process_needs_no_endpoint(self):
        with Ranks(1, "check", MASTER_ADDR="", MASTER_PORT="") as ranks:
            code, out, err = ranks.finish()[0]
        self.assertEqual((code, err), (0, ""))
        self.assertEqual({kind for _, kind, _ in groups(out).values()}, {"lone"})


if __name__ == "__main__":
    unittest.main()
