"""docs/write_a_kernel.md translates what a kernel in Python may use: every public name of NKI 0.6 has a place in it."""

import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TITAN_SOURCE_DIR"])

ISA = """dma_copy dma_transpose dma_compute tensor_copy tensor_copy_predicated memset iota nc_transpose nc_stream_shuffle
local_gather nc_n_gather sendrecv core_barrier register_alloc register_move register_load register_store nc_matmul nc_matmul_mx
tensor_tensor tensor_scalar scalar_tensor_tensor tensor_reduce tensor_partition_reduce tensor_scalar_reduce
tensor_scalar_cumulative activation activation_reduce activate2 exponential reciprocal affine_select range_select select_reduce
tensor_tensor_scan bn_stats bn_aggr max8 nc_find_index8 nc_match_replace8 nonzero_with_count topk sequence_bounds quantize_mx
dropout rng rand2 rand_set_state rand_get_state set_rng_seed engine oob_mode matmul_perf_mode reduce_cmd""".split()
LANGUAGE = """ndarray sbuf psum hbm private_hbm shared_hbm tile_size program_id num_programs program_ndim affine_range
sequential_range static_range dynamic_range fori_loop while_loop shared_constant shared_identity_matrix device_print ds load
store matmul softmax where""".split()
VIEWS = """reshape permute broadcast expand_dim squeeze_dim reshape_dim flatten_dims rearrange slice select vector_select view
reinterpret_cast ap""".split()
OTHERS = ["nki.jit", "wrap_nki", "nki_op", "register_autograd", "NKI_SIMULATOR", "no_reorder", "priority", "dge_mode", "depends_on"]


class PythonNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = (SOURCE / "docs" / "write_a_kernel.md").read_text()
        section = text[text.index("\n## From Python\n"):text.index("\n## Rules\n")]
        left = [row.split(" | ")[0] for row in re.findall(r"(?m)^\| `.*$", section)]
        prose = [line for line in section.splitlines() if not line.startswith("|")]
        cls.known = "\n".join(re.findall(r"`([^`]+)`", "\n".join(left + prose)))

    def missing(self, names, before=r"\b"):
        return [name for name in names if not re.search(before + re.escape(name) + r"\b", self.known)]

    def test_every_instruction_has_a_row(self):
        self.assertEqual(self.missing(ISA, r"nisa\."), [])

    def test_every_function_of_the_language_has_a_row(self):
        self.assertEqual(self.missing(LANGUAGE, r"(?:nl\.|^|\s)"), [])

    def test_every_view_has_a_row(self):
        self.assertEqual(self.missing(VIEWS, r"\bt\."), [])

    def test_what_surrounds_a_kernel_has_a_row(self):
        self.assertEqual(self.missing(OTHERS), [])


if __name__ == "__main__":
    unittest.main()
