# SPDX-License-Identifier: Apache-2.0
"""A use of each name of the language, for test_language_page.py: an expression over

    i  int32[16], 0 to 15      x  fp32[16]     s  a scalar fp32    p  *fp32    n     a scalar int32
    k  int32[16]               h  fp16[16]     m  int1[16]         q  *int32   desc  of fp32[4, 16] in blocks [1, 16]
    u  uint32[16]              a  fp16[16, 16] e  fp8e4nv[16, 16]  d  fp64[16]

or a statement, with a semicolon behind it. What stands in language.def as "x.name" of types is named "dtype.name",
of descriptors "desc.name".
"""

ASSEMBLY = 'tl.inline_asm_elementwise("add.s32 $0, $1, 1;", "=r,r", [k], dtype=tl.int32, is_pure=True, pack=1)'
SCALED = 'tl.dot_scaled(e, u[:, None].to(tl.uint8)[:, :1], "e4m3", e, None, "e4m3")'

BODIES = {
    **{name: f"tl.load(p.to(tl.pointer_type(tl.{name}), bitcast=True) + i) + 1" for name in (
        "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float8e4b15", "float8e4b8",
        "float8e4nv", "float8e5", "float8e5b16", "float16", "bfloat16", "float32", "float64")},
    "void": "tl.to_tensor(tl.void == tl.int8)", "pi32_t": "tl.load(tl.load(p.to(tl.pointer_type(tl.pi32_t), bitcast=True)))",
    "program_id": "tl.program_id(0)", "num_programs": "tl.num_programs(1)",
    "arange": "tl.arange(0, 12)", "full": "tl.full((4, 3), 2.5, tl.float32)", "zeros": "tl.zeros((4,), tl.int32)",
    "zeros_like": "tl.zeros_like(x)", "to_tensor": "tl.to_tensor(3)", "constexpr": "tl.constexpr(3) + n",
    "swizzle2d": "tl.swizzle2d(i, k, 4, 4, 2)",
    "load": "tl.load(p + i, m, other=0.0)", "store": "tl.store(p + i, x, m);", "debug_barrier": "tl.debug_barrier();",
    "atomic_add": "tl.atomic_add(p + i, x)", "atomic_max": "tl.atomic_max(p + i, x)", "atomic_min": "tl.atomic_min(q + i, k)",
    "atomic_and": "tl.atomic_and(q + i, k)", "atomic_or": "tl.atomic_or(q + i, k)", "atomic_xor": "tl.atomic_xor(q + i, k)",
    "atomic_xchg": "tl.atomic_xchg(p + i, x, m)", "atomic_cas": "tl.atomic_cas(q + i, k, i)",
    "atomic_load": "tl.atomic_load(q + i)", "atomic_store": "tl.atomic_store(q + i, k);",
    "atomic_poll": "tl.atomic_poll(q + i, 1, timeout_ns=100)",
    "make_block_ptr": "tl.load(tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,)), boundary_check=(0,))",
    "advance": "tl.load(tl.advance(tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,)), (4,)))",
    "make_tensor_descriptor": "tl.make_tensor_descriptor(p, [n, 16], [16, 1], [4, 16]).load([0, 0])",
    "_experimental_make_tensor_descriptor":
        "tl._experimental_make_tensor_descriptor(p, [n, 16], [16, 1], [4, 16]).load([0, 0])",
    "load_tensor_descriptor": "tl.load_tensor_descriptor(desc, [0, 0])",
    "store_tensor_descriptor": "tl.store_tensor_descriptor(desc, [0, 0], x[None, :]);",
    "desc.load": "desc.load([0, 0])", "desc.store": "desc.store([0, 0], x[None, :]);", "desc.gather": "desc.gather(i, 0)",
    "desc.scatter": "desc.scatter(x[:, None] + x[None, :], i, 0);", "desc.atomic_add": "desc.atomic_add([0, 0], x[None, :]);",
    "desc.atomic_min": "whole.atomic_min([0], k);", "desc.atomic_max": "whole.atomic_max([0], k);",
    "desc.atomic_and": "whole.atomic_and([0], k);", "desc.atomic_or": "whole.atomic_or([0], k);",
    "desc.atomic_xor": "whole.atomic_xor([0], k);",
    "add": "tl.add(x, 1.0)", "sub": "tl.sub(x, s)", "mul": "tl.mul(k, i)", "logical_and": "m.logical_and(m)",
    "logical_or": "m.logical_or(m)", "where": "tl.where(m, x, 0.0)", "cast": "tl.cast(x, tl.bfloat16)",
    "to": "x.to(tl.float8e5)", "minimum": "tl.minimum(x, s)", "maximum": "tl.maximum(x, s, tl.PropagateNan.ALL)",
    "clamp": "tl.clamp(x, 0.0, 1.0)", "cdiv": "tl.cdiv(k, 4)",
    **{name: f"tl.{name}(x)" for name in ("abs", "exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos",
                                          "erf", "floor", "ceil", "sigmoid", "softmax")},
    "umulhi": "tl.umulhi(u, k)", "fma": "tl.fma(x, x, s)", "fdiv": "tl.fdiv(x, s)", "div_rn": "tl.div_rn(x, s)",
    "philox": "tl.philox(n, u, u, u, u)", "philox_impl": "tl.philox_impl(u, u, u, u, u, u)",
    **{name: f"tl.{name}(n, i)" for name in ("randint", "randint4x", "rand", "rand4x", "randn", "randn4x")},
    "uint_to_uniform_float": "tl.random.uint_to_uniform_float(u)", "pair_uniform_to_normal": "tl.pair_uniform_to_normal(x, x)",
    **{f"extra.cuda.{name}": f"tl.extra.cuda.{name}()" for name in ("globaltimer", "smid", "num_warps", "num_threads")},
    **{f"extra.hip.{name}": f"tl.extra.hip.{name}()" for name in ("memrealtime", "smid", "num_warps", "num_threads")},
    "extra.cuda.convert_custom_float8_sm70": "tl.extra.cuda.convert_custom_float8_sm70(x, tl.float8e4b15)",
    "extra.cuda.convert_custom_float8_sm80": "tl.extra.cuda.convert_custom_float8_sm80(h, tl.float8e4b15)",
    "extra.cuda.gdc_wait": "tl.extra.cuda.gdc_wait();",
    "extra.cuda.gdc_launch_dependents": "tl.extra.cuda.gdc_launch_dependents();",
    "broadcast": "tl.broadcast(x[:, None], k[None, :])", "broadcast_to": "tl.broadcast_to(s, 4, 3)",
    "expand_dims": "tl.expand_dims(x, (0, 2))", "unsqueeze": "tl.unsqueeze(x, 1)", "squeeze": "tl.squeeze(x[None, :], 0)",
    "reshape": "tl.reshape(x, 4, 4)", "view": "tl.view(x, 2, 8)", "ravel": "tl.ravel(x[:, None])", "trans": "tl.trans(a)",
    "permute": "tl.permute(a, 1, 0)", "join": "tl.join(x, x)", "split": "tl.split(tl.reshape(x, 8, 2))",
    "interleave": "tl.interleave(x, x)", "cat": "tl.cat(x, x)", "flip": "tl.flip(x)", "gather": "tl.gather(x, i, 0)",
    "item": "tl.sum(x, 0, keep_dims=True).item()",
    "reduce": "tl.reduce(x, 0, both)", "associative_scan": "tl.associative_scan(x, 0, both)", "cumsum": "tl.cumsum(x)",
    "cumprod": "tl.cumprod(x)", "sort": "tl.sort(x)", "topk": "tl.topk(x, 4)", "bitonic_merge": "tl.bitonic_merge(x)",
    **{name: f"tl.{name}(x)" for name in ("sum", "max", "min")},
    **{name: f"tl.{name}(x, 0)" for name in ("argmax", "argmin")}, "xor_sum": "tl.xor_sum(k)", "reduce_or": "tl.reduce_or(k, 0)",
    "dot": "tl.dot(a, a)", "dot_scaled": SCALED, "histogram": "tl.histogram(k, 8)",
    "map_elementwise": "tl.map_elementwise(both, x, x)", "inline_asm_elementwise": ASSEMBLY,
    "multiple_of": "tl.multiple_of(k, 4)", "max_contiguous": "tl.max_contiguous(k, 4)", "max_constancy": "tl.max_constancy(k, 4)",
    "assume": "tl.assume(n > 3);", "static_assert": "tl.static_assert(16 == 16);", "static_print": 'tl.static_print(end="");',
    "device_print": 'tl.device_print("text", x, hex=True);', "device_assert": 'tl.device_assert(m, "text");', "expect_zero": "tl.expect_zero(x, m)",
    "pointer_type": "x.to(tl.pointer_type(tl.float32).element_ty)", "block_type": "x.to(tl.block_type(tl.int32, [16]).scalar)",
    "get_int_dtype": "x.to(tl.get_int_dtype(16, True))", "str_to_ty": 'x.to(tl.str_to_ty("i64"))',
    **{f"dtype.{name}": f"tl.to_tensor(tl.float32.{name}())" for name in (
        "is_floating", "is_standard_floating", "is_int", "is_int_signed", "is_int_unsigned", "is_bool", "is_int1", "is_int8",
        "is_int16", "is_int32", "is_int64", "is_uint8", "is_uint16", "is_uint32", "is_uint64", "is_fp16", "is_bf16", "is_fp32",
        "is_fp64", "is_fp8", "is_fp8e4b15", "is_fp8e4b8", "is_fp8e4nv", "is_fp8e5", "is_fp8e5b16", "is_const", "kind", "is_ptr",
        "is_block")},
    "dtype.codegen_name": 'tl.to_tensor(tl.int8.codegen_name() == "int8")',
    "dtype.mangle": 'tl.to_tensor(tl.int8.mangle() == "i8")',
    "dtype.get_int_max_value": "tl.to_tensor(tl.int8.get_int_max_value())",
    "dtype.get_int_min_value": "tl.to_tensor(tl.int8.get_int_min_value())",
    "dtype.with_element_ty": "x.to(x.type.with_element_ty(tl.int8).scalar)",
    "dtype.get_block_shapes": "tl.to_tensor(x.type.get_block_shapes()[0])",
    "target_info.current_target": "tl.to_tensor(tl.target_info.current_target().warp_size)",
    "target_info.cuda_capability_geq": "tl.to_tensor(tl.target_info.cuda_capability_geq(9, 0))",
    **{f"target_info.{name}": f"tl.to_tensor(tl.target_info.{name}())"
       for name in ("is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250")},
    "range": "tl.sum(x + counted(n))", "static_range": "x + unrolled()", "condition": "x + waited(n)",
    "const": "read_only(p)",
    **{name: f"tl.to_tensor(isinstance(x, tl.{name}))" for name in (
        "tensor", "tuple", "tensor_descriptor", "tensor_descriptor_base", "tensor_descriptor_type",
        "tensor_descriptor_base_type", "dtype")},
    "aggregate_replace": "tl.aggregate_replace(Pair(x, k), second=x).second",
}
# Of Python: kernels do not call them.
IN_PYTHON = ("tuple_type", "constexpr_type", "slice")

# The variable of a type in libdevice's overloads.
OF_TYPE = {"fp32": "x", "fp64": "d", "int32": "k", "int64": "k.to(tl.int64)", "uint32": "u", "uint64": "u.to(tl.uint64)"}


def libdevice_body(name, overloads):
    """A call with arguments of the first overload."""
    operands = overloads.split(";")[0].split("->")[0].split()
    return f"libdevice.{name}({', '.join(OF_TYPE[each] for each in operands)})"


HEAD = """
import libtile
import libtile.language as tl
from libtile.language.extra import libdevice


@libtile.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor


@libtile.jit
def both(a, b):
    return a + b


@libtile.jit
def counted(n):
    total = 0
    for j in tl.range(0, n, num_stages=2):
        total += j
    return total


@libtile.jit
def unrolled():
    total = 0
    for j in tl.static_range(3):
        total += j
    return total


@libtile.jit
def waited(n):
    total = 0
    while tl.condition(total < n, disable_licm=True):
        total += 1
    return total


@libtile.jit
def read_only(p: tl.const):
    return tl.load(p)


@libtile.jit
def keep(out, y):
    if isinstance(y, tl.tuple):
        for j in tl.static_range(len(y)):
            keep(out, y[j])
    elif isinstance(y, tl.tensor):
        z = y.to(tl.float32)
        tl.store(out + tl.zeros(z.shape, tl.int32), z)
    else:
        tl.store(out, tl.to_tensor(y).to(tl.float32))


@libtile.jit
def values(p, q, a, e, n):
    i = tl.arange(0, 16)
    x, k = tl.load(p + i), tl.load(q + i)
    at = i[:, None] * 16 + i[None, :]
    return (i, x, tl.load(p), k, x.to(tl.float16), k > 2, k.to(tl.uint32, bitcast=True), x.to(tl.float64),
            tl.load(a + at), tl.load(e + at))
"""
KERNEL = """

@libtile.jit
def kernel_{number}(p, q, a, e, n, out):
    i, x, s, k, h, m, u, d, a, e = values(p, q, a, e, n)
    desc = tl.make_tensor_descriptor(p, [n, 16], [16, 1], [1, 16])
    whole = tl.make_tensor_descriptor(q, [n], [1], [16])
"""
ARGUMENTS = ["*fp32:16", "*i32:16", "*fp16:16", "*fp8e4nv:16", "i32", "*fp32"]


def source(bodies):
    """The text of a module with a kernel `kernel_0`, ... for each body."""
    text = HEAD
    for number, body in enumerate(bodies):
        text += KERNEL.format(number=number)
        text += f"    {body[:-1]}\n" if body.endswith(";") else f"    keep(out, {body})\n"
    return text
