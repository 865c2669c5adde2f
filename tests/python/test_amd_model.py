# SPDX-License-Identifier: Apache-2.0
"""What ./dev bench --device amd reads out of assembly (bench/amd): loops, counts, occupancy; and that its table knows our code."""
import sys
from collections import Counter
from pathlib import Path

import pytest

import libtile

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
from amd import assembly, cases, emulated, model, table  # noqa: E402

NESTED = """
kernel:                                 ; @kernel
	s_load_dword s0, s[4:5], 0x0
.Ltmp0:
	s_cmp_lt_i32 s0, 1
	s_cbranch_scc1 .LBB0_4
.LBB0_1:                                ; the outer loop
	s_mov_b32 s1, 0
.LBB0_2:
	v_add_f32_e32 v0, v1, v2
	s_cbranch_scc1 .LBB0_2
	s_cbranch_vccnz .LBB0_1
.LBB0_4:
	s_endpgm
.Lfunc_end0:
	v_nop
"""
MASKED = """
.LBB0_1:
	s_and_saveexec_b64 s[2:3], vcc
	s_cbranch_execz .LBB0_3
	global_load_dwordx4 v[0:3], v[8:9], off
.LBB0_3:
	s_or_b64 exec, exec, s[2:3]
	s_cbranch_vccnz .LBB0_5
	v_cndmask_b32_e32 v0, 0, v0, vcc
	v_cndmask_b32_e32 v1, 0, v1, vcc
.LBB0_5:
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_cbranch_scc0 .LBB0_1
	s_endpgm
"""
AWAY = """
.LBB0_1:
	s_and_saveexec_b32 s2, vcc_lo
	s_cbranch_execnz .LBB0_4
.LBB0_2:
	s_or_b32 exec_lo, exec_lo, s2
	v_dual_mul_f32 v0, v0, v1 :: v_dual_add_f32 v2, v2, v3
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.LBB0_4:
	global_load_b128 v[0:3], v[8:9], off
	s_branch .LBB0_2
"""


def names(way):
    return [instruction.mnemonics[0] for instruction in way]


def only_loop(text):
    code = assembly.Code(text)
    (header, body), = assembly.innermost(code.loops())
    return names(code.path(header, body, model.work))


def test_loops():
    code = assembly.Code(NESTED)
    assert [len(body) for _, body in code.loops()] == [3, 1]
    assert only_loop(NESTED) == ["v_add_f32", "s_cbranch_scc1"]
    outer = code.loops()[0]
    assert names(code.path(*outer, model.work)) == ["s_mov_b32", "v_add_f32", "s_cbranch_scc1", "s_cbranch_vccnz"]
    assert "v_nop" not in names(code.path(0, set(range(len(code.blocks))), model.work))


def test_the_steady_state():
    masked = only_loop(MASKED)
    assert "global_load_dwordx4" in masked and "v_cndmask_b32" not in masked and "v_mfma_f32_32x32x8_f16" in masked
    assert only_loop(AWAY) == ["s_and_saveexec_b32", "s_cbranch_execnz", "global_load_b128", "s_branch", "s_or_b32", "v_dual_mul_f32",
                               "s_cbranch_scc1"]


def test_counts_of_a_unit_of_work():
    """Two blocks of k an iteration: half of it is a unit. 4 waves, 1,024 lanes' halves."""
    text = MASKED.replace("\ts_cbranch_scc0", "\tv_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]\n\ts_cbranch_scc0")
    made = model.analysed(text, "gfx942", 256, 4 * 2 * 32 * 32 * 8, (256 * 8,), lds_bytes=100)
    assert made["instructions"] == {"matrix": 1, "valu": 0, "lds": 0, "global": 0.5, "scratch": 0, "scalar": 2.5, "wait": 0}
    assert made["busy"] == {"matrix": 32, "global": 32, "scalar": 10} and made["cycles"] == 32 and made["lds_bytes"] == 100
    # A read of less than a second unit: the multiplications are done twice.
    assert model.analysed(text, "gfx942", 256, 4 * 2 * 32 * 32 * 8, (256 * 16,))["instructions"]["matrix"] == 2


def test_a_kernel_without_loops_is_counted_whole():
    made = model.analysed("\tglobal_load_b128 v[0:3], v[8:9], off\n\ts_delay_alu 0\n\tv_exp_f32_e32 v0, v0\n\ts_endpgm\n", "gfx1100", 256)
    assert made["instructions"] == {"matrix": 0, "valu": 1, "lds": 0, "global": 1, "scratch": 0, "scalar": 1, "wait": 0}
    assert made["busy"] == {"trans": 8, "global": 32, "scalar": 2} and made["bound"] == "global"


@pytest.mark.parametrize("target, threads, vgprs, sgprs, lds_bytes, waves", [
    ("gfx90a", 256, 128, 96, 0, 4), ("gfx90a", 256, 129, 96, 0, 3), ("gfx942", 256, 24, 102, 0, 7), ("gfx942", 256, 24, 16, 0, 8),
    ("gfx942", 256, 32, 16, 32768, 2), ("gfx942", 512, 32, 16, 32768, 4), ("gfx950", 256, 32, 16, 65536, 2),
    ("gfx942", 64, 24, 16, 0, 4),    # 16 workgroups
    ("gfx942", 256, 268, 29, 0, 1), ("gfx1100", 256, 256, 24, 0, 4), ("gfx1100", 256, 97, 24, 0, 12), ("gfx1201", 256, 50, 24, 65536, 4)])
def test_occupancy(target, threads, vgprs, sgprs, lds_bytes, waves):
    assert model.occupancy(model.targets()[target], threads, vgprs, sgprs, lds_bytes) == waves


def test_classes_that_exceed_the_peers():
    def side(**counts):
        return {"instructions": {name: 0 for name in model.CLASSES} | counts}
    assert model.exceeding(side(valu=11, lds=12, scratch=1), side(valu=10, lds=10)) == {"lds": 1.2, "scratch": None}


def test_tables_are_whole():
    rows = (model.FOLDER / "instructions.tsv").read_text().splitlines()
    assert len(model.kinds()) == len(rows) - 1, "a mnemonic stands there twice"
    assert {kind.of for kind in model.kinds().values()} == {*model.CLASSES, "hint"}
    assert Counter(kind.rate for kind in model.kinds().values()).keys() == model.rates().keys()
    assert model.flops("v_mfma_f32_32x32x8_f16") == model.flops("v_mfma_f32_32x32x8f16") == 2 * 32 * 32 * 8
    assert model.flops("v_mfma_scale_f32_16x16x128_f8f6f4") == 2 * 16 * 16 * 128 and not model.flops("v_fma_f32")
    with pytest.raises(KeyError, match="has no v_new"):
        model.kind("v_new")


def test_conflicts_where_an_emulator_counts_them(monkeypatch):
    case = next(cases.cases("gfx942"))
    monkeypatch.setenv("LIBTILE_HIP", "/no such library")
    assert emulated.lds_of_unit(b"", "add", case, "gfx942", cases.THREADS, 0) is None
    assert emulated.COUNTS.findall("add: LDS 2, scalar 40; LDS takes 96 cycles, 32 of them for bank conflicts\n") == [("96", "32")]
    assert [table.conflicts({"lds": lds}) for lds in (None, {"refused": "v_new"}, {"cycles": 96, "conflicts": 32})] == ["-", "-", "32"]


@pytest.mark.parametrize("target", cases.TARGETS)
def test_cases_give_each_parameter_an_argument(target):
    for case in cases.cases(target):
        assert len(case.arguments(4)) == sum(isinstance(kind, str) for kind in case.types), case.name


@pytest.mark.not_interpreted("it is about machine code")
@pytest.mark.slow
@pytest.mark.parametrize("target", cases.TARGETS)
def test_the_table_has_what_the_lessons_emit(target):
    for case in cases.cases(target):
        try:
            text = cases.ours(case, target).asm["asm"]
        except libtile.UnsupportedError as error:
            assert "needs LLVM 20" in str(error)
            pytest.skip("this build's LLVM does not know the target")
        for item in assembly.parsed(text):
            for mnemonic in () if isinstance(item, str) else item.mnemonics:
                assert model.cost(mnemonic, model.targets()[target])[1] >= 0
        made = model.analysed(text, target, cases.THREADS, case.flops, case.loads)
        assert made["cycles"] > 0 and made["instructions"]["global"] > 0 and bool(case.flops) == bool(made["instructions"]["matrix"])
