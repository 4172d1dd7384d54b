/* abi.h: the boundary between Tenon's core and its plugins. Plain C11, valid as C++20.
 *
 * A plugin is a shared library with one exported symbol, tenon_plugin_entry(). Everything it gives and everything it
 * gets goes through the tables below; it links nothing of the core.
 *
 * Rules that hold for every table
 *  - `struct_size` comes first and is set by whoever fills the table. A reader uses a member only if it lies inside
 *    that size (TENON_HAS). Tables grow at the end only. While the major version is 0 the minor must match exactly.
 *  - 8-byte aligned, fixed-width integers, no bool, no enum type, no bit-field, no padding that is not named.
 *  - Addresses of device memory cross as tenon_addr, never as pointers, and belong to the device of the call.
 *  - No exception, no C++ type and no allocator crosses. Who allocates frees; the release function stands beside.
 *  - Strings are UTF-8 with a length, not terminated. A string passed to a call is borrowed for that call unless the
 *    comment says "borrowed for the library's life".
 *  - Functions that can fail return a tenon_status and put their message into the host's slot with host->fail().
 *    Outputs are untouched on failure.
 *  - "Pure" means: same arguments, same answer; no side effect a caller could see; callable from any thread.
 *
 * Since-version: every function here is since 0.1 unless its comment says otherwise.
 */
#ifndef TENON_ABI_H
#define TENON_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define TENON_NOEXCEPT noexcept
#else
#define TENON_NOEXCEPT
#endif

#define TENON_ABI_MAJOR 0u
#define TENON_ABI_MINOR 1u
#define TENON_MAGIC 0x4e4f4e4554ull /* "TENON" */

/* True if `member` lies inside the size that the table's writer declared. */
#define TENON_HAS(table, member) \
  ((table)->struct_size >= offsetof(__typeof__(*(table)), member) + sizeof((table)->member))

/* ------------------------------------------------------------------------------------------------------------------
 * Plain types
 * ---------------------------------------------------------------------------------------------------------------- */

typedef int32_t tenon_status;
enum {
  TENON_OK = 0,
  TENON_INVALID_ARGUMENT = 1, /* the caller broke a duty */
  TENON_UNSUPPORTED = 2,      /* a capability that is not there; the host tries the next candidate */
  TENON_NOT_FOUND = 3,        /* past the end of an enumeration, or no such name */
  TENON_OUT_OF_MEMORY = 4,
  TENON_IO = 5,
  TENON_CORRUPT = 6,  /* a file breaks its format; the message names field and offset */
  TENON_CAPACITY = 7, /* a bounded resource is full: pages, sequences, context */
  TENON_DEVICE_LOST = 8,
  TENON_CANCELLED = 9,
  TENON_INTERNAL = 10,
  TENON_INCOMPATIBLE = 11 /* versions or machines that do not fit */
};

typedef uint64_t tenon_addr; /* address in the operand's device memory; 0 = absent */
typedef struct tenon_str {
  const char* data;
  uint64_t size;
} tenon_str;

typedef struct tenon_file tenon_file; /* host handle: an open, size-checked model file */
typedef struct tenon_meta tenon_meta; /* host handle: metadata and tensor list of a model source */

/* Typed metadata. The numbering is the host's; formats translate their own. */
enum {
  TENON_VALUE_NONE = 0,
  TENON_VALUE_U8 = 1,
  TENON_VALUE_I8 = 2,
  TENON_VALUE_U16 = 3,
  TENON_VALUE_I16 = 4,
  TENON_VALUE_U32 = 5,
  TENON_VALUE_I32 = 6,
  TENON_VALUE_U64 = 7,
  TENON_VALUE_I64 = 8,
  TENON_VALUE_F32 = 9,
  TENON_VALUE_F64 = 10,
  TENON_VALUE_BOOL = 11, /* one byte, 0 or 1 */
  TENON_VALUE_STRING = 12,
  TENON_VALUE_ARRAY = 13
};
typedef struct tenon_value {
  uint32_t struct_size;
  uint32_t type;      /* TENON_VALUE_* */
  uint32_t element;   /* type of an array's elements; never ARRAY */
  uint32_t reserved;
  int64_t integer;    /* every integer type and BOOL, sign-extended (U64 as its bits) */
  double real;        /* F32, F64 */
  tenon_str string;   /* STRING */
  const void* data;   /* ARRAY: count elements in host byte order, naturally aligned; strings as tenon_str[] */
  uint64_t count;
} tenon_value;
typedef struct tenon_entry {
  tenon_str key;
  tenon_value value;
} tenon_entry;

/* A device, as kernels and backends see it. Borrowed for the backend's life. */
typedef struct tenon_device {
  uint32_t struct_size, index;
  tenon_str backend;         /* name of the backend that owns it */
  tenon_str name;            /* for people */
  const tenon_str* features; /* e.g. "avx512vnni", "sm_90a"; kernels name the ones they need */
  uint32_t n_feature, max_workers;
  uint64_t memory_bytes;
  uint32_t compute_major, compute_minor; /* CUDA; 0 elsewhere */
} tenon_device;

/* ------------------------------------------------------------------------------------------------------------------
 * Encodings: how a value's rows are stored while the model runs
 * ---------------------------------------------------------------------------------------------------------------- */

enum {
  TENON_ENC_NONE = 0,
  TENON_ENC_F32 = 1,
  TENON_ENC_BF16 = 2,
  TENON_ENC_F16 = 3,
  TENON_ENC_Q8_32 = 4,   /* blocks of 32 along the row, see below */
  TENON_ENC_FP8_128 = 5, /* E4M3 codes and one f32 scale for 128 columns */
  TENON_ENC_I32 = 6      /* token ids, expert ids */
};

/* q8_32. A row of `cols` (a multiple of 32) is a structure of arrays, each part at a multiple of 64 bytes:
 *   int8  code[cols]      in -127 … 127
 *   float scale[cols/32]  value = code × scale
 *   int16 sum[cols/16]    sum of 16 codes, for weights with minimums
 * Encoding a block: amax = max|x|; scale = amax/127; code = clamp(rint(x × (127/amax)), ±127), all f32, ties to even;
 * amax 0 gives scale 0 and codes 0. A block with a value that is not finite gets scale NaN and codes 0, so that the
 * fault stays visible in its own row. */
#define TENON_ALIGN64(n) (((int64_t)(n) + 63) & ~(int64_t)63)
static inline int64_t tenon_q8_32_scale_offset(int64_t cols) { return TENON_ALIGN64(cols); }
static inline int64_t tenon_q8_32_sum_offset(int64_t cols) { return TENON_ALIGN64(cols) + TENON_ALIGN64(cols / 32 * 4); }

/* Bytes from one row of a value to the next in that encoding; 0 = unknown encoding. */
static inline int64_t tenon_encoding_row_bytes(uint32_t encoding, int64_t cols) {
  switch (encoding) {
    case TENON_ENC_F32:
    case TENON_ENC_I32: return TENON_ALIGN64(cols * 4);
    case TENON_ENC_BF16:
    case TENON_ENC_F16: return TENON_ALIGN64(cols * 2);
    case TENON_ENC_Q8_32: return tenon_q8_32_sum_offset(cols) + TENON_ALIGN64(cols / 16 * 2);
    case TENON_ENC_FP8_128: return TENON_ALIGN64(cols) + TENON_ALIGN64((cols + 127) / 128 * 4);
    default: return 0;
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Dtypes: how a weight is stored in its file
 * ---------------------------------------------------------------------------------------------------------------- */

/* Ids of the dtypes that the core itself registers. All others are registered by name and get their id then. */
enum {
  TENON_DTYPE_NONE = 0,
  TENON_DTYPE_F32 = 1,
  TENON_DTYPE_F16 = 2,
  TENON_DTYPE_BF16 = 3,
  TENON_DTYPE_F64 = 4,
  TENON_DTYPE_I8 = 5,
  TENON_DTYPE_I16 = 6,
  TENON_DTYPE_I32 = 7,
  TENON_DTYPE_I64 = 8,
  TENON_DTYPE_U8 = 9,
  TENON_DTYPE_FIRST_REGISTERED = 64
};

enum { TENON_WEIGHT_ROUTER = 1u, TENON_WEIGHT_NORM = 2u };

struct tenon_bank;
/* A weight as a kernel sees it: rows × cols, `cols` contiguous (a GGUF {in, out} is cols = in, rows = out). */
typedef struct tenon_weight {
  uint32_t struct_size, dtype;
  uint32_t layout;      /* 0 = as in the file; else the id that a kernel gave its packed form */
  uint32_t parts;       /* pinned partition of the K fold; 0 or 1 = none */
  tenon_addr plane[4];  /* codes, scales, mins, macro (one factor, applied after the K fold); packed: [0] only */
  int64_t rows, cols;
  int64_t row_bytes;    /* of plane 0 in the file's layout */
  int64_t expert_stride;
  uint32_t n_expert, flags; /* TENON_WEIGHT_* */
  const struct tenon_bank* bank;
} tenon_weight;

/* The experts of one layer on one device. */
typedef struct tenon_bank {
  uint32_t struct_size, n_expert, n_kind, reserved;
  tenon_addr address;        /* u64 [3][n_expert]: gate, up, down; 0 = not here */
  tenon_addr kind;           /* u8 [3][n_expert] into kinds; 0 = uniform */
  const tenon_weight* kinds;
  tenon_addr macro;          /* f32 [3][n_expert]; 0 = all 1 */
  tenon_addr scale;          /* f32 [n_expert] into the route weight; 0 = all 1 */
  tenon_addr local, active;  /* i32 local id or -1; u8 */
} tenon_bank;

/* The record of a dtype. Registered once, borrowed for the library's life. */
typedef struct tenon_dtype {
  uint32_t struct_size, n_plane;
  tenon_str name;                   /* "q4_k", "vendor.x" */
  uint32_t block_cols, block_bytes; /* of plane 0 */
  uint32_t tile_rows, tile_cols;    /* grid of plane 1: rows 0 = none, cols 0 = whole rows; see docs/abi.md */
  uint32_t plane_bytes[4];          /* bytes of a plane's element or block; 0 = no such plane */
  /* The definition: rows row0 … row0+n-1 as f32, [n][cols], bit for bit as the format's documents say. The weight is in
   * host memory and has layout 0. Pure, any thread. */
  tenon_status (*decode)(const tenon_weight* weight, int64_t row0, int64_t n, float* out) TENON_NOEXCEPT;
  /* f32 [rows][cols] into `out`'s planes (layout 0, allocated by the caller). Null where no encoder exists. Pure. */
  tenon_status (*encode)(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) TENON_NOEXCEPT;
  /* Fails with the first row whose bytes give a value that is not finite. May be null. Pure. */
  tenon_status (*check)(const tenon_weight* weight, int64_t row0, int64_t n) TENON_NOEXCEPT;
} tenon_dtype;

/* ------------------------------------------------------------------------------------------------------------------
 * Ops. docs/ops.md gives each one's maths; the order of operands is fixed here.
 * ---------------------------------------------------------------------------------------------------------------- */

enum {
  TENON_OP_NONE = 0,
  TENON_OP_COMPOSITE = 1,       /* see tenon_node.part */
  TENON_OP_EMBED = 2,           /* tokens, overlay?; table -> x */
  TENON_OP_ENCODE = 3,          /* x -> x' in another encoding (core only) */
  TENON_OP_NORM = 4,            /* x; w? -> y */
  TENON_OP_LINEAR = 5,          /* x; W1…W4 -> y1…y4 */
  TENON_OP_GLU = 6,             /* gate, up -> y */
  TENON_OP_GATE = 7,            /* x, g -> y */
  TENON_OP_ADD = 8,             /* a, b -> a + b;  or a; w -> a + w (a bias, w of a's cols) */
  TENON_OP_MUL = 9,             /* a, b -> a × b;  or a; w -> a × w (w of a's cols, or one number) */
  TENON_OP_SCALE = 10,          /* x -> x × factor */
  TENON_OP_SOFTCAP = 11,        /* x -> cap × tanh(x / cap) */
  TENON_OP_CONCAT = 12,         /* a, b -> [a ; b] along the row */
  TENON_OP_ROPE = 13,           /* x; inv_freq, divisor? -> y; the core divides, a kernel gets one weight */
  TENON_OP_KV_WRITE = 14,       /* k, v; store;  or rows; a LATENT store */
  TENON_OP_ATTENTION = 15,      /* q; store -> o */
  TENON_OP_LATENT_ATTENTION = 16, /* q; store -> o */
  TENON_OP_SHORT_CONV = 17,     /* x; w; store -> y */
  TENON_OP_GATED_DELTA_RULE = 18, /* q, k, v, b, a; A, dt; store -> o */
  TENON_OP_ROUTE = 19,          /* logits; bias?, scale? -> ids, weights */
  TENON_OP_EXPERT_FFN = 20,     /* x, ids, weights; bank -> y */
  TENON_OP_FOLD_SLOTS = 21,     /* slots, weights -> y */
  TENON_OP_SELECT_ROWS = 22,    /* x -> the rows that step.out_row names */
  TENON_OP_LOGITS_TAIL = 23,    /* logits; never? -> logits: cap (a tenon_scale_attr), then mask (core only) */
  TENON_OP_SAMPLE = 24,         /* logits -> token (core only) */
  TENON_OP_ADVANCE = 25,        /* writes the step record (core only) */
  TENON_OP_COPY = 26,
  TENON_OP_ALL_REDUCE = 27,
  TENON_OP_ALL_GATHER = 28,
  TENON_OP_REDUCE_SCATTER = 29,
  TENON_OP_SEND = 30,
  TENON_OP_RECV = 31,
  TENON_OP_ALL_TO_ALL = 32,
  TENON_OP_FOLD_PARTS = 33,
  TENON_OP_COUNT = 34
};

enum { TENON_ACT_NONE = 0, TENON_ACT_SILU = 1, TENON_ACT_GELU_TANH = 2, TENON_ACT_SIGMOID = 3, TENON_ACT_SWIGLU_OAI = 4 };

typedef struct tenon_embed_attr {
  uint32_t struct_size;
  float scale; /* y = row × scale; overlay rows replace y after the scaling */
} tenon_embed_attr;
typedef struct tenon_encode_attr {
  uint32_t struct_size, encoding;
} tenon_encode_attr;
enum { TENON_NORM_RMS = 0, TENON_NORM_L2 = 1 };
typedef struct tenon_norm_attr {
  uint32_t struct_size, kind; /* RMS: x/√(mean x² + eps);  L2: x/√(Σx² + eps) */
  float eps;
  uint32_t group; /* columns that share one statistic and the weight; 0 = the whole row */
} tenon_norm_attr;
typedef struct tenon_linear_attr {
  uint32_t struct_size, flags; /* TENON_WEIGHT_ROUTER: needs a row-exact f32 kernel in both phases */
} tenon_linear_attr;
typedef struct tenon_glu_attr {
  uint32_t struct_size, activation;
  float limit; /* 0 = none: |up| ≤ limit, act(gate) ≤ limit; SWIGLU_OAI: gate ≤ limit before it is activated */
  float alpha; /* SWIGLU_OAI */
} tenon_glu_attr;
typedef struct tenon_gate_attr {
  uint32_t struct_size, activation; /* SIGMOID or SILU of g */
  uint32_t group;                   /* columns of x that share one g: 1, a head's width, or all */
  uint32_t reserved;
} tenon_gate_attr;
typedef struct tenon_scale_attr {
  uint32_t struct_size;
  float factor; /* SCALE: the factor; SOFTCAP: the cap; LOGITS_TAIL: the cap, 0 = none */
} tenon_scale_attr;
enum { TENON_ROPE_HALF = 0, TENON_ROPE_ADJACENT = 1 };
typedef struct tenon_rope_attr {
  uint32_t struct_size, style;   /* HALF: pair (i, i + n_rot/2);  ADJACENT: pair (2i, 2i + 1) */
  uint32_t head_dim, n_rot;      /* n_rot even, ≤ head_dim; columns n_rot … of a head pass through */
  uint32_t sections[4];          /* position stream of a pair, interleaved as qwen35 does; all 0 = stream 0 */
  float magnitude;               /* factor on sine and cosine (YaRN); 1 = none */
  uint32_t reserved;
} tenon_rope_attr;
typedef struct tenon_kv_write_attr {
  uint32_t struct_size, kv_heads, head_dim, head_dim_v; /* LATENT store: 1, rank + rope_dim, 0 */
} tenon_kv_write_attr;
typedef struct tenon_attention_attr {
  uint32_t struct_size, heads, kv_heads, head_dim, head_dim_v;
  int32_t window; /* keys p with q - window < p ≤ q; 0 = all p ≤ q */
  float scale, softcap; /* softcap 0 = none */
  uint32_t span_mask, reserved;
} tenon_attention_attr;
/* q: heads × (rank + rope_dim), against the store's rows; o: heads × rank, of the rows' first rank columns. */
typedef struct tenon_latent_attention_attr {
  uint32_t struct_size, heads, rank, rope_dim;
  float scale;
  uint32_t reserved;
} tenon_latent_attention_attr;
typedef struct tenon_short_conv_attr {
  uint32_t struct_size, taps, activation, reserved; /* y_t = act(Σ_j w[c][j] × x_{t-taps+1+j}); activation NONE or SILU */
} tenon_short_conv_attr;
enum { TENON_HEAD_MAP_DIV = 0, TENON_HEAD_MAP_MOD = 1 };
typedef struct tenon_gated_delta_rule_attr {
  uint32_t struct_size, key_heads, value_heads, key_dim, value_dim;
  uint32_t head_map; /* key head of value head h: DIV h / (nv/nk);  MOD h mod nk */
  float scale;       /* on q */
  uint32_t reserved;
} tenon_gated_delta_rule_attr;
typedef struct tenon_route_attr {
  uint32_t struct_size, top_k, gating; /* gating: 0 softmax over all, 1 sigmoid */
  uint32_t normalize;                  /* divide by the sum of the chosen */
  float scale, floor;                  /* after normalising; floor of the sum */
} tenon_route_attr;
typedef struct tenon_expert_ffn_attr {
  uint32_t struct_size, activation;
  float limit, alpha;
  uint32_t combine, top_k; /* combine: 0 fold slots in ascending order, 1 give slots */
} tenon_expert_ffn_attr;

/* Row domains: what a value's rows stand for. */
enum { TENON_DOMAIN_TOKENS = 0, TENON_DOMAIN_OUTPUT_ROWS = 1, TENON_DOMAIN_SEQUENCES = 2 };
enum { TENON_PHASE_DECODE = 1u, TENON_PHASE_PREFILL = 2u };
#define TENON_DECODE_MAX_TOKENS 15 /* new tokens of one sequence in a decode step; also a tape's rows */
#define TENON_PAGE_TOKENS 64       /* tokens of a page, and the grid of prefill chunks */

/* ------------------------------------------------------------------------------------------------------------------
 * Stores: what a sequence keeps between steps
 * ---------------------------------------------------------------------------------------------------------------- */

enum { TENON_STORE_PAGED = 1, TENON_STORE_LATENT = 2, TENON_STORE_CONV = 3, TENON_STORE_RECURRENT = 4 };

typedef struct tenon_store_type {
  uint32_t struct_size, kind;
  uint32_t dtype_k, dtype_v; /* TENON_DTYPE_* or a registered block type; latent: the same; recurrent and conv: F32 */
  uint32_t layout;           /* 0 = the one described below; another is private to the kernels that name it */
  uint32_t heads;            /* PAGED: K/V heads; LATENT: 1; RECURRENT: value heads */
  int32_t window;
  uint32_t layer;
  int64_t cols_k; /* PAGED: heads × head_dim;   CONV: channels;   RECURRENT: heads × key_dim;  LATENT: rank + rope_dim */
  int64_t cols_v; /* PAGED: heads × head_dim_v; CONV: taps - 1;   RECURRENT: value_dim;        LATENT: 0 */
  int64_t tape_cols; /* RECURRENT: f32 numbers a tape row holds, see below; CONV: channels; else 0 */
} tenon_store_type;

/* A store in a step.
 *
 * PAGED, layout 0. `table` is i32 [max_seqs][table_stride]: page of (sequence, position / 64), -1 = given back or not
 * yet there. Page p begins at base + p × page_bytes and holds K as [heads][64][head_dim] in dtype_k, then, at
 * `value_offset`, V as [heads][64][head_dim_v] in dtype_v. A masked or unwritten row may hold anything, NaN included.
 *
 * LATENT, layout 0. Table and pages as above; a page holds rows [64][rank + rope_dim] in dtype_k and nothing else. A row is
 * the compressed K/V of a token behind its norm, then the rotated part of the key that all heads share. It is the key of
 * every head, and its first rank columns are the value. In a block type a block may hold columns of both.
 *
 * CONV. `table` is i32 [max_seqs]: slot of the sequence. Slot s begins at base + s × page_bytes and holds two halves
 * f32 [2][taps - 1][channels], oldest row first; step.half says which is current. Its tape begins at
 * aux + s × aux_bytes: f32 [2][15][channels], the inputs of the convolution.
 *
 * RECURRENT. Slot as above: f32 state [heads][key_dim][value_dim], updated in place, each head by one owner. Its tape:
 * f32 [2][15][tape_cols], a row being [k: key_heads × key_dim, normalised][v: heads × value_dim][decay: heads]
 * [beta: heads], bit for bit as first used; tape_cols is their sum. */
typedef struct tenon_store {
  tenon_addr base, table, aux;
  int64_t page_bytes, value_offset, aux_bytes;
  uint32_t page_tokens, table_stride;
} tenon_store;

/* ------------------------------------------------------------------------------------------------------------------
 * The step record: the only truth about tokens and lengths while a Program runs. All addresses are in device memory
 * and never change in a Program's life, so a captured graph can be replayed with other contents.
 *
 * Transactions on CONV and RECURRENT stores, for each sequence s, in this order:
 *  1. accepted[s] > 0: replay rows 0 … accepted-1 of tape slot replay[s] onto the base; the result is the new base.
 *  2. tape[s] < 0 (plain step): go on from the base and write the new base when done.
 *     tape[s] ≥ 0: go on from the base in scratch, after replaying rows 0 … tape_start[s]-1 of slot tape[s] (earlier
 *     steps of the same transaction); append this step's rows to that slot from row tape_start[s] on; the base stays.
 * RECURRENT writes its base in place. CONV reads half `half[s]` and, whenever 1. or 2. changes the base, writes half
 * 1 - half[s] (the last taps - 1 rows of base ‖ accepted rows ‖ plain rows); the core flips `half` afterwards.
 * replay[s] never equals tape[s] while accepted[s] > 0.
 * ---------------------------------------------------------------------------------------------------------------- */
typedef struct tenon_step {
  uint32_t struct_size, max_rows, max_seqs, max_pages;
  tenon_addr n_rows, n_seqs, n_outputs; /* u32, live; rows beyond are padding and write to no store */
  tenon_addr token;     /* i32 [rows] */
  tenon_addr position;  /* i32 [4][max_rows]: rope positions, four streams */
  tenon_addr index;     /* i32 [rows]: position in the cache */
  tenon_addr seq;       /* i32 [rows]: sequence of the row, ascending; rows of a sequence are consecutive */
  tenon_addr row_start; /* i32 [seqs + 1] */
  tenon_addr kv_len;    /* i32 [seqs]: tokens before the step */
  tenon_addr seq_end;   /* i32 [seqs]: where the request ends; a bound for planning, never for masks */
  tenon_addr accepted, replay, tape, tape_start, half; /* i32 [seqs], see above */
  tenon_addr span;      /* i32 [rows]: id of the bidirectional span, -1 = none; its rows are consecutive, in one step */
  tenon_addr overlay;   /* i32 [rows]: row of the overlay input, -1 = none */
  tenon_addr out_row;   /* i32 [outputs]: row of the step that an output row shows */
  tenon_addr sampling, mask; /* 0 until the device samples: parameters and seed a row; allowed-id bits */
  tenon_addr status;    /* u32 [outputs]: bit 0 = the row's logits are not finite */
} tenon_step;

/* ------------------------------------------------------------------------------------------------------------------
 * Kernels
 * ---------------------------------------------------------------------------------------------------------------- */

/* A value in a step. Element (r, c) of an f32 value lies at data + r × row_bytes + (c / w) × group_bytes + (c mod w) × 4
 * with w = cols / groups; a plain value has groups = 1. Only f32, bf16 and f16 values may have groups > 1. */
typedef struct tenon_view {
  tenon_addr data;
  int64_t rows, cols; /* rows: allocated */
  int64_t row_bytes, groups, group_bytes;
  uint32_t encoding, reserved;
} tenon_view;

typedef struct tenon_type {
  uint32_t encoding, domain;
  int64_t cols, groups; /* groups > 1: the operand is a strided view */
} tenon_type;

/* What a kernel is asked to serve. Borrowed for the call. */
typedef struct tenon_node {
  uint32_t struct_size, op;
  uint32_t phase, layer; /* TENON_PHASE_*; UINT32_MAX outside layers */
  tenon_str name;        /* for messages */
  const void* attr;      /* tenon_<op>_attr, its size first; null for ops without one */
  const tenon_type* in;
  const tenon_type* out;
  const tenon_weight* weight; /* planes are 0 in accept(); layout ≠ 0: a packed form exists and may be asked for */
  const tenon_store_type* store;
  uint32_t n_in, n_out, n_weight, n_store;
  const struct tenon_node* part; /* COMPOSITE: its plain ops in order; in/out/weight/store above are the group's own */
  uint32_t n_part, reserved;
} tenon_node;

enum {
  TENON_OFFER_CAPTURABLE = 1u,
  TENON_OFFER_PDL = 2u,
  TENON_OFFER_ROW_EXACT = 4u,    /* a row's result does not depend on other rows, their number or the grid */
  TENON_OFFER_PARTIAL_BANK = 8u, /* skips absent experts */
  TENON_OFFER_DEQUANTIZES = 16u, /* decodes weights to f32 for each use: slower, `inspect` says so */
  TENON_OFFER_BF16_WEIGHTS = 32u /* linear: rounds each decoded weight to bf16 (nearest, ties to even) */
};
/* Filled by accept(). */
typedef struct tenon_offer {
  uint32_t struct_size, flags;
  uint32_t in_encoding[8];  /* wanted for each input; preset to F32 (I32 for ids) */
  uint32_t out_encoding[8]; /* emitted; preset to the node's */
  uint32_t pack_layout[8];  /* wanted for each weight; preset to 0 = the file's */
  uint32_t store_layout[4]; /* preset to 0 */
  double fixed_us, us_per_row, bytes_read; /* compared inside one numeric class only */
  char why_not[192];        /* terminated; set when accept() answers UNSUPPORTED */
} tenon_offer;

typedef struct tenon_pack {
  uint32_t struct_size, weight; /* index into the node's weights */
  uint32_t layout, on_device;
  uint64_t bytes, align, tail_pad; /* answered while dst == 0: bytes includes tail_pad */
  int64_t row0, rows;              /* the slice; row0 is a multiple of 64, so is rows but in the last slice */
  const tenon_weight* src;         /* layout 0; planes are readable by the host (on_device: by the device) */
  tenon_addr dst;                  /* begin of the whole packed weight */
  void* stream;
} tenon_pack;

/* How a launch divides its work among CPU workers. A later node may run without a barrier if its share is the same. */
enum {
  TENON_PART_ONE = 0,       /* worker 0 alone */
  TENON_PART_OUT_COLS = 1,  /* every output on its own is cut into units of unit_cols columns, TENON_SHARE of them each */
  TENON_PART_ROWS = 2,      /* rows, TENON_SHARE of the live rows */
  TENON_PART_HEADS = 3,     /* every output has n_units equal groups of columns, TENON_SHARE of them each */
  TENON_PART_REPLICATE = 4, /* every worker computes everything into its own copy */
  TENON_PART_CLAIM = 5      /* uneven: units are claimed; always a barrier after it */
};
/* First unit of worker w among W for n units; its last is TENON_SHARE(n, w + 1, W) - 1. */
#define TENON_SHARE(n, w, W) ((int64_t)(n) * (int64_t)(w) / (int64_t)(W))

typedef struct tenon_plan {
  uint32_t struct_size, partition;
  uint64_t workspace, scratch; /* bytes a launch; bytes a worker */
  int64_t n_units, unit_cols;  /* HEADS; OUT_COLS (the last unit of an output may be short) */
  void* impl; /* the kernel's own; immutable after plan(); released by drop() */
} tenon_plan;

typedef struct tenon_args {
  uint32_t struct_size, n_in, n_out, n_weight, n_store;
  uint32_t rows; /* live rows of the node's domain; views may hold more */
  const tenon_view* in;
  const tenon_view* out;
  const tenon_weight* weight;
  const tenon_store* store;
  const tenon_step* step;
} tenon_args;

typedef struct tenon_exec {
  uint32_t struct_size, flags; /* TENON_OFFER_PDL: this launch and the one before it on the stream offer it */
  tenon_addr workspace;        /* shared by the launch; contents undefined on entry */
  void* scratch;               /* of this worker, 64-byte aligned; contents undefined on entry */
  void* stream;                /* as the backend's native() gives it; null on a CPU */
  uint32_t worker, n_workers;  /* CPU: every worker calls launch() with its index */
  void* team;
  void* counter; /* of this launch, for claim() */
  void (*barrier)(void* team) TENON_NOEXCEPT;
  int64_t (*claim)(void* counter, int64_t n) TENON_NOEXCEPT; /* first of the next n units */
} tenon_exec;

/* A kernel. Registered once, borrowed for the library's life. */
typedef struct tenon_kernel {
  uint32_t struct_size, phases; /* TENON_PHASE_* */
  uint32_t min_rows, max_rows;  /* more rows: the executor slices (row-wise ops only); 0 = no limit */
  int32_t priority;             /* among kernels that accept: higher first */
  uint32_t reserved;
  tenon_str name;          /* "block.linear.vnni" */
  tenon_str backend;       /* "cpu" */
  tenon_str feature;       /* device features it needs, separated by spaces; empty = none */
  tenon_str pattern;       /* an op's name, or a composite's text (docs/ops.md) */
  tenon_str numeric_class; /* kernels of one class give equal bits */
  void* self;
  /* Can it serve the node on the device? OK and an offer, or UNSUPPORTED and offer->why_not. Pure. */
  tenon_status (*accept)(const struct tenon_kernel*, const tenon_node*, const tenon_device*, tenon_offer*) TENON_NOEXCEPT;
  /* With dst == 0 answers bytes, align, tail_pad for a weight; else packs the slice. Any thread; slices run in
   * parallel. Null if no offer names a layout. */
  tenon_status (*pack)(const struct tenon_kernel*, const tenon_node*, tenon_pack*) TENON_NOEXCEPT;
  /* Sizes and constants for up to max_rows rows and max_context tokens. Pure but for impl. */
  tenon_status (*plan)(const struct tenon_kernel*, const tenon_node*, uint32_t max_rows, int64_t max_context,
                       uint32_t n_workers, tenon_plan*) TENON_NOEXCEPT;
  /* Runs the node. Allocates nothing, synchronizes nothing but exec->barrier, starts no thread. */
  tenon_status (*launch)(const struct tenon_kernel*, const tenon_plan*, const tenon_args*, const tenon_exec*) TENON_NOEXCEPT;
  void (*drop)(const struct tenon_kernel*, tenon_plan*) TENON_NOEXCEPT; /* may be null when impl is unused */
} tenon_kernel;

/* ------------------------------------------------------------------------------------------------------------------
 * Backends
 * ---------------------------------------------------------------------------------------------------------------- */

enum {
  TENON_BACKEND_HOST_MEMORY = 1u, /* device addresses are host pointers */
  TENON_BACKEND_CAPTURE = 2u,
  TENON_BACKEND_PEER = 4u,
  TENON_BACKEND_SPMD = 8u /* has team(); kernels are launched by every worker */
};
enum { TENON_MEMORY_DEVICE = 0, TENON_MEMORY_PINNED = 1, TENON_MEMORY_MAPPED = 2 };
enum { TENON_HANDLE_STREAM = 1, TENON_HANDLE_EVENT = 2, TENON_HANDLE_GRAPH = 3 };

/* A backend. `self` is the first argument of every member. Members are callable from any thread unless they say
 * otherwise; a member that the flags rule out may be null. */
typedef struct tenon_backend {
  uint32_t struct_size, flags;
  tenon_str name;
  void* self;
  /* n devices, borrowed for the library's life. UNSUPPORTED with a reason ("no driver") where there is none. */
  tenon_status (*devices)(void* self, uint32_t* n, const tenon_device* const** devices) TENON_NOEXCEPT;
  tenon_status (*memory)(void* self, uint32_t dev, uint64_t* free_bytes, uint64_t* total) TENON_NOEXCEPT;
  /* OUT_OF_MEMORY is an answer, never an abort. Memory is zeroed. Freed by free() with the same kind. */
  tenon_status (*alloc)(void* self, uint32_t dev, uint32_t kind, uint64_t bytes, uint64_t align, tenon_addr*) TENON_NOEXCEPT;
  void (*free)(void* self, uint32_t dev, uint32_t kind, tenon_addr) TENON_NOEXCEPT;
  tenon_status (*stream)(void* self, uint32_t dev, int32_t priority, void** stream) TENON_NOEXCEPT; /* destroy(STREAM) */
  tenon_status (*event)(void* self, uint32_t dev, void** event) TENON_NOEXCEPT;                     /* destroy(EVENT) */
  tenon_status (*record)(void* self, void* event, void* stream) TENON_NOEXCEPT;
  tenon_status (*wait)(void* self, void* stream, void* event) TENON_NOEXCEPT;
  /* Waits for a stream or an event; timeout_ns 0 = for ever; CANCELLED when the time is over. */
  tenon_status (*sync)(void* self, void* stream_or_event, uint64_t timeout_ns) TENON_NOEXCEPT;
  /* Rows of bytes between devices and host: dev UINT32_MAX = host memory. stream null = done on return. */
  tenon_status (*copy)(void* self, void* stream, uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src,
                       uint64_t row_bytes, uint64_t rows, uint64_t dst_step, uint64_t src_step) TENON_NOEXCEPT;
  tenon_status (*fill)(void* self, void* stream, uint32_t dev, tenon_addr, uint32_t byte, uint64_t bytes) TENON_NOEXCEPT;
  tenon_status (*peer)(void* self, uint32_t from, uint32_t to, uint32_t* direct) TENON_NOEXCEPT; /* query, enable, probe */
  tenon_status (*capture_begin)(void* self, void* stream) TENON_NOEXCEPT;
  tenon_status (*capture_end)(void* self, void* stream, void** graph) TENON_NOEXCEPT; /* destroy(GRAPH) */
  tenon_status (*replay)(void* self, void* graph, void* stream) TENON_NOEXCEPT;
  /* Runs body(arg, exec) once on each of `workers` resident workers, at the same time, and returns when all are done.
   * exec carries worker, n_workers, team, barrier and claim. Ranks over one device call at the same time, and a body may wait
   * for another call's: each call has workers of its own. */
  tenon_status (*team)(void* self, uint32_t dev, uint32_t workers, void (*body)(void* arg, const tenon_exec*),
                       void* arg) TENON_NOEXCEPT;
  void (*destroy)(void* self, uint32_t what, void* handle) TENON_NOEXCEPT;
  void* (*native)(void* self, uint32_t what, void* handle) TENON_NOEXCEPT; /* e.g. CUstream, for kernels of the same backend */
  /* A line for people: which instruction sets or driver are in use. Borrowed for the library's life. */
  tenon_status (*describe)(void* self, tenon_str* text) TENON_NOEXCEPT;
} tenon_backend;

/* ------------------------------------------------------------------------------------------------------------------
 * Architectures
 * ---------------------------------------------------------------------------------------------------------------- */

enum {
  TENON_ROLE_REPLICATED = 0,
  TENON_ROLE_COLUMN = 1, /* output rows are cut */
  TENON_ROLE_ROW = 2,    /* input columns are cut */
  TENON_ROLE_EXPERT = 3,
  TENON_ROLE_VOCAB = 4
};
enum {
  TENON_DECL_OPTIONAL = 1u,
  TENON_DECL_ROUTER = 2u,
  TENON_DECL_NORM = 4u,
  TENON_DECL_KEEP_FLOAT = 8u,
  TENON_DECL_REPEAT_IF_SHORT = 16u /* fewer units than ranks: units are repeated */
};
/* Rank r of W owns unit u = row / unit iff (u % period) × W / period == r; period 0 = all units in order. */
typedef struct tenon_segment {
  int64_t rows;
  uint32_t unit, period;
} tenon_segment;
typedef struct tenon_weight_decl {
  uint32_t struct_size, role;
  tenon_str name; /* canonical */
  int64_t rows, cols;
  uint32_t n_expert, parts, flags, n_segment; /* TENON_DECL_* */
  const tenon_segment* segment;               /* of the axis that the role cuts */
  tenon_str tied_to;                          /* canonical name used when this weight is absent; empty = none */
  tenon_str target; /* in a draft: the weight of that canonical name of the model drafted for; rows and cols may be 0 */
} tenon_weight_decl;
typedef struct tenon_store_decl {
  uint32_t struct_size, kind;
  int32_t window, alias; /* alias: id of the store read instead, -1 = own */
  uint32_t heads, reserved;
  int64_t cols_k, cols_v, tape_cols; /* as in tenon_store_type */
  tenon_segment cut;
  tenon_str target; /* in a draft: reads the last store of that role of the model drafted for; empty = this model */
  tenon_str role;   /* what drafts call this store; empty = nothing */
} tenon_store_decl;

/* HIDDEN, in a draft: f32 rows of the model drafted for. OVERLAY, not in a draft: f32 rows for embed. docs/abi.md, Entries. */
enum { TENON_INPUT_TOKENS = 1, TENON_INPUT_HIDDEN = 2, TENON_INPUT_OVERLAY = 3 };

/* The host's table for build(); valid during that call, on its thread. Ids are ≥ 0; a negative one is -tenon_status, whose text
 * is in the host's slot, and every later call with it fails as well. */
typedef struct tenon_builder {
  uint32_t struct_size, abi_minor;
  void* self;
  int32_t (*layer)(void* self, uint32_t index) TENON_NOEXCEPT; /* a border: cuts, taps and traces happen here */
  int32_t (*weight)(void* self, const tenon_weight_decl*) TENON_NOEXCEPT; /* the same name gives the same id */
  int32_t (*has_weight)(void* self, tenon_str canonical) TENON_NOEXCEPT;  /* 1 present in the files, 0 not */
  int32_t (*constant)(void* self, tenon_str name, const float* values, int64_t rows, int64_t cols) TENON_NOEXCEPT; /* copied; a weight id */
  int32_t (*store)(void* self, const tenon_store_decl*) TENON_NOEXCEPT;
  int32_t (*input)(void* self, uint32_t what) TENON_NOEXCEPT; /* TENON_INPUT_* */
  /* Columns col0 + g × group_step … of `cols / groups` width each, g < groups, as a value without a copy. */
  int32_t (*view)(void* self, int32_t value, int64_t col0, int64_t cols, int64_t groups, int64_t group_step) TENON_NOEXCEPT;
  /* Adds a node; the core infers and checks every type and writes n_out value ids. */
  tenon_status (*op)(void* self, uint32_t op, const void* attr, const int32_t* in, uint32_t n_in, const int32_t* weight,
                     uint32_t n_weight, const int32_t* store, uint32_t n_store, int32_t* out, uint32_t n_out) TENON_NOEXCEPT;
  tenon_status (*tap)(void* self, int32_t value, tenon_str name) TENON_NOEXCEPT; /* "hidden.3" enters layer 3 */
  /* The entry's end: cap, then the ids that are never to be sampled. */
  tenon_status (*logits)(void* self, int32_t value, float softcap, const int32_t* never, uint32_t n_never) TENON_NOEXCEPT;
  /* In a draft: the logits are of fewer tokens than the vocabulary has; that I32 or I64 tensor holds their ids, in order. */
  tenon_status (*id_map)(void* self, tenon_str canonical) TENON_NOEXCEPT;
} tenon_builder;

/* Name rules. `{i}` in both names stands for one number. */
enum {
  TENON_TRANSFORM_NONE = 0,
  TENON_TRANSFORM_STACK_EXPERTS = 1, /* `{e}` in the source numbers the experts */
  TENON_TRANSFORM_JOIN_ROWS = 2,     /* source: several names, separated by spaces; the rows of each behind the last one's */
  TENON_TRANSFORM_SLICE_ROWS = 3,    /* rows a … b - 1 of a tensor of `axis` rows, or of each expert's */
  TENON_TRANSFORM_TRANSPOSE = 4,     /* of f32, f16 and bf16; axis ≠ 0: of those rows alone that SLICE_ROWS would take */
  TENON_TRANSFORM_RESHAPE = 5,       /* to a rows, b cols */
  TENON_TRANSFORM_ADD_ONE = 6,
  TENON_TRANSFORM_MINUS_EXP = 7,
  TENON_TRANSFORM_UNUSED = 8         /* known and left alone; canonical may be empty */
};
typedef struct tenon_name_rule {
  tenon_str canonical, source;
  uint32_t transform, axis;
  int64_t a, b;
} tenon_name_rule;

/* What the host must know of a configured model. Written by limits(). */
typedef struct tenon_limits {
  uint32_t struct_size, n_layer;
  int64_t width, vocab, context; /* context: trained length; 0 = unknown */
  uint32_t chunk_grid, n_entry;  /* 0 = TENON_PAGE_TOKENS */
  const tenon_str* entries;      /* "main", "draft.0" …; borrowed until drop() */
  uint32_t n_draft_unused; /* draft blocks that the file holds and no entry uses */
  uint32_t n_draft_absent; /* draft blocks that the file announces and leaves to another */
  tenon_str drafts_for;    /* architecture that its drafts are for; empty = its own */
} tenon_limits;

/* What a file of a configured model says in a naming scheme, beside the weights under their canonical names. */
typedef struct tenon_reorder {
  tenon_str canonical;     /* may hold {i} */
  uint32_t axis, reserved; /* 0 = columns, 1 = rows */
  /* From `first` on, outer times, a × b pieces of `unit` rows or columns are written as b × a. */
  int64_t first, outer, a, b, unit;
} tenon_reorder;
typedef struct tenon_constant {
  tenon_str name;
  const float* values; /* [rows][cols] */
  int64_t rows, cols;
} tenon_constant;
typedef struct tenon_written {
  uint32_t struct_size, n_entry, n_reorder, n_constant;
  const tenon_entry* entry;       /* metadata, all but the tokenizer's */
  const tenon_reorder* reorder;   /* weights whose rows or columns that scheme orders differently */
  const tenon_constant* constant; /* tensors that no weight of this model's files is */
} tenon_written;

typedef struct tenon_architecture {
  uint32_t struct_size, flags;
  tenon_str name;
  void* self;
  /* 0 = not mine … 100 = exactly mine. Pure. */
  tenon_status (*score)(void* self, const tenon_meta*, uint32_t* score) TENON_NOEXCEPT;
  /* Reads and checks parameters. CORRUPT or UNSUPPORTED names the key, what was expected and what was found. */
  tenon_status (*configure)(void* self, const tenon_meta*, void** model) TENON_NOEXCEPT;
  /* Rules for a naming scheme ("gguf", "hf"), borrowed until drop(). NOT_FOUND: scheme unknown. */
  tenon_status (*names)(void* model, tenon_str scheme, const tenon_name_rule**, uint32_t* n) TENON_NOEXCEPT;
  tenon_status (*limits)(void* model, tenon_limits*) TENON_NOEXCEPT;
  tenon_status (*build)(void* model, tenon_str entry, const tenon_builder*) TENON_NOEXCEPT;
  void (*drop)(void* model) TENON_NOEXCEPT;
  /* How the model is written in another scheme than its files', borrowed until the next call or drop(); null: it is not.
   * NOT_FOUND: scheme unknown; UNSUPPORTED names what that scheme cannot say. */
  tenon_status (*written)(void* model, tenon_str scheme, tenon_written*) TENON_NOEXCEPT;
} tenon_architecture;

/* ------------------------------------------------------------------------------------------------------------------
 * Formats. The host opens and reads files, the plugin parses and checks; the host checks every range again.
 * ---------------------------------------------------------------------------------------------------------------- */

enum { TENON_PLANE_CODES = 0, TENON_PLANE_SCALES = 1, TENON_PLANE_MINS = 2, TENON_PLANE_MACRO = 3 };
typedef struct tenon_plane {
  uint32_t role, dtype, file, n_dim; /* file: index in the set */
  int64_t dim[4];                    /* dim[0] contiguous */
  uint64_t offset, bytes;            /* in the file, from its begin */
} tenon_plane;
typedef struct tenon_tensor {
  uint32_t struct_size, dtype;
  tenon_str name;
  uint32_t n_dim, n_plane;
  int64_t dim[4]; /* dim[0] contiguous: cols; dim[1]: rows; dim[2]: experts */
  const tenon_plane* plane; /* borrowed until close() */
} tenon_tensor;
/* A file to be written. Its tensors (name, dtype, n_dim, dim; no planes) follow one another in this order, gaps are zeros. */
typedef struct tenon_layout {
  uint32_t struct_size, reserved;
  const tenon_entry* entry;
  const tenon_tensor* tensor;
  uint64_t n_entry, n_tensor;
  void (*put)(void* arg, const void* bytes, uint64_t n); /* takes the bytes in front of the data, in order */
  void* arg;
  uint64_t* offset; /* [n_tensor + 1]: where in the file each tensor's data begin; the file's size */
} tenon_layout;
#define TENON_FORMAT_TAKES_ABSENT 1u /* flag: a part that is not there is a null handle in open(), see docs/abi.md */
typedef struct tenon_format {
  uint32_t struct_size, flags;
  tenon_str name, scheme; /* scheme of its tensor names: "gguf", "hf" */
  void* self;
  /* From up to 64 KiB of the file's begin: 0 = not mine … 100 = sure. Pure. */
  tenon_status (*probe)(void* self, const uint8_t* head, uint64_t n, tenon_str file_name, uint32_t* score) TENON_NOEXCEPT;
  /* Parses the first n files of a set. Files stay open until close(). */
  tenon_status (*open)(void* self, tenon_file* const* files, uint32_t n, void** source) TENON_NOEXCEPT;
  /* Name (in the same directory) of file i that the set still wants, i ≥ n of open(); NOT_FOUND: complete. The host
   * then closes and opens again with all files. */
  tenon_status (*more)(void* source, uint32_t i, tenon_str* file_name) TENON_NOEXCEPT;
  tenon_status (*meta)(void* source, uint64_t i, tenon_str* key, tenon_value*) TENON_NOEXCEPT; /* NOT_FOUND past the end */
  tenon_status (*tensor)(void* source, uint64_t i, tenon_tensor*) TENON_NOEXCEPT;               /* NOT_FOUND past the end */
  void (*close)(void* source) TENON_NOEXCEPT;
  /* Describes a file to be written; null: the format only reads. UNSUPPORTED names a dtype or value that it has no place for. */
  tenon_status (*layout)(void* self, const tenon_layout*) TENON_NOEXCEPT;
} tenon_format;

/* ------------------------------------------------------------------------------------------------------------------
 * Collectives: enqueue only. The core moves values by grouped send and recv and adds them up itself, in order; the other calls
 * may be null.
 * ---------------------------------------------------------------------------------------------------------------- */

enum { TENON_COLLECTIVE_CAPTURABLE = 1u, TENON_COLLECTIVE_DEVICE_MEMORY = 2u, TENON_COLLECTIVE_REPEATABLE = 4u };
typedef struct tenon_collective {
  uint32_t struct_size, flags;
  tenon_str name;
  void* self;
  tenon_status (*unique)(void* self, uint8_t id[128]) TENON_NOEXCEPT;
  tenon_status (*join)(void* self, const uint8_t id[128], uint32_t n, uint32_t rank, tenon_str backend, uint32_t dev,
                       void** comm) TENON_NOEXCEPT; /* leave() */
  tenon_status (*all_reduce)(void* comm, tenon_addr in, tenon_addr out, uint64_t n, uint32_t encoding, void* stream) TENON_NOEXCEPT;
  tenon_status (*all_gather)(void* comm, tenon_addr in, tenon_addr out, uint64_t bytes, void* stream) TENON_NOEXCEPT;
  tenon_status (*reduce_scatter)(void* comm, tenon_addr in, tenon_addr out, uint64_t n, uint32_t encoding, void* stream) TENON_NOEXCEPT;
  tenon_status (*broadcast)(void* comm, tenon_addr, uint64_t bytes, uint32_t root, void* stream) TENON_NOEXCEPT;
  tenon_status (*send)(void* comm, tenon_addr, uint64_t bytes, uint32_t to, void* stream) TENON_NOEXCEPT;
  tenon_status (*recv)(void* comm, tenon_addr, uint64_t bytes, uint32_t from, void* stream) TENON_NOEXCEPT;
  tenon_status (*group)(void* comm, uint32_t begin_or_end) TENON_NOEXCEPT; /* 1 begin, 0 end; all_to_all = grouped send/recv */
  tenon_status (*poll)(void* comm) TENON_NOEXCEPT;
  void (*abort)(void* comm) TENON_NOEXCEPT;
  void (*leave)(void* comm) TENON_NOEXCEPT;
  /* Where ranks are processes that something else has started: how many there are and which of them this one is. The n-th
   * unique() of each process then gives the same id. Null: ranks are threads of this process, as many as the host wants. */
  tenon_status (*place)(void* self, uint32_t* n_ranks, uint32_t* rank) TENON_NOEXCEPT;
} tenon_collective;

/* ------------------------------------------------------------------------------------------------------------------
 * Host, registrar, plugin
 * ---------------------------------------------------------------------------------------------------------------- */

enum { TENON_LOG_DEBUG = 0, TENON_LOG_INFO = 1, TENON_LOG_WARNING = 2, TENON_LOG_ERROR = 3 };
enum { TENON_ADVISE_SEQUENTIAL = 1, TENON_ADVISE_WILL_NEED = 2, TENON_ADVISE_DONE = 3 };

/* What the host gives a plugin. Valid from init() to the end of the process; every member from any thread. */
typedef struct tenon_host {
  uint32_t struct_size, abi_major, abi_minor, reserved;
  void* self;
  void (*log)(void* self, uint32_t level, tenon_str text) TENON_NOEXCEPT;
  /* Puts the message into this thread's slot and returns `status`, so that `return host->fail(…)` reads well. */
  tenon_status (*fail)(void* self, tenon_status status, tenon_str message) TENON_NOEXCEPT;
  /* Scratch memory; null when there is none. release() takes what scratch() gave. Never during a launch. */
  void* (*scratch)(void* self, uint64_t bytes, uint64_t align) TENON_NOEXCEPT;
  void (*release)(void* self, void*) TENON_NOEXCEPT;
  /* A configuration value by name ("threads"); NOT_FOUND. Strings are borrowed for the library's life. */
  tenon_status (*config)(void* self, tenon_str key, tenon_value*) TENON_NOEXCEPT;
  /* Runs body(arg, i) for i < n on the loading pool and returns when all are done. For loading only. */
  tenon_status (*parallel)(void* self, int64_t n, void (*body)(void* arg, int64_t i), void* arg) TENON_NOEXCEPT;
  /* Files. read() fails with IO when the range leaves the file; map() gives a read-only range that lives as long as the
   * file is open (a later truncation of the file can make it fault: checked again by the host at load). */
  tenon_status (*file_size)(void* self, const tenon_file*, uint64_t* bytes) TENON_NOEXCEPT;
  tenon_status (*file_name)(void* self, const tenon_file*, tenon_str* base_name) TENON_NOEXCEPT;
  tenon_status (*file_read)(void* self, const tenon_file*, uint64_t offset, void* dst, uint64_t bytes) TENON_NOEXCEPT;
  tenon_status (*file_map)(void* self, const tenon_file*, uint64_t offset, uint64_t bytes, const void** data) TENON_NOEXCEPT;
  tenon_status (*file_advise)(void* self, const tenon_file*, uint64_t offset, uint64_t bytes, uint32_t advice) TENON_NOEXCEPT;
  /* Metadata of a source: by key, or by position. NOT_FOUND when absent. Borrowed while the source is open. */
  tenon_status (*meta_find)(void* self, const tenon_meta*, tenon_str key, tenon_value*) TENON_NOEXCEPT;
  tenon_status (*meta_at)(void* self, const tenon_meta*, uint64_t i, tenon_str* key, tenon_value*) TENON_NOEXCEPT;
  tenon_status (*meta_tensor)(void* self, const tenon_meta*, tenon_str name, tenon_tensor*) TENON_NOEXCEPT;
  tenon_status (*meta_tensor_at)(void* self, const tenon_meta*, uint64_t i, tenon_tensor*) TENON_NOEXCEPT;
  tenon_status (*meta_scheme)(void* self, const tenon_meta*, tenon_str* scheme) TENON_NOEXCEPT;
  /* Dtypes. Records are borrowed for the process's life. */
  tenon_status (*dtype_id)(void* self, tenon_str name, uint32_t* id) TENON_NOEXCEPT;
  const tenon_dtype* (*dtype)(void* self, uint32_t id) TENON_NOEXCEPT; /* null = unknown */
} tenon_host;

/* Valid during init(). Each call registers one record, borrowed for the library's life; a name that is taken is refused. */
typedef struct tenon_registrar {
  uint32_t struct_size, reserved;
  void* self;
  tenon_status (*architecture)(void* self, const tenon_architecture*) TENON_NOEXCEPT;
  tenon_status (*format)(void* self, const tenon_format*) TENON_NOEXCEPT;
  tenon_status (*dtype)(void* self, const tenon_dtype*, uint32_t* id) TENON_NOEXCEPT;
  tenon_status (*backend)(void* self, const tenon_backend*) TENON_NOEXCEPT;
  tenon_status (*kernels)(void* self, const tenon_kernel* const*, uint32_t n) TENON_NOEXCEPT;
  tenon_status (*composite)(void* self, tenon_str name, tenon_str text) TENON_NOEXCEPT;
  tenon_status (*collective)(void* self, const tenon_collective*) TENON_NOEXCEPT;
} tenon_registrar;

typedef struct tenon_plugin {
  uint32_t struct_size, abi_major, abi_minor, reserved;
  uint64_t magic; /* TENON_MAGIC */
  tenon_str name, version, licence;
  /* Called once, before anything else, on the loading thread. A failure leaves nothing registered. */
  tenon_status (*init)(const tenon_host*, const tenon_registrar*) TENON_NOEXCEPT;
  void (*shutdown)(void) TENON_NOEXCEPT; /* once, at the end; may be null */
} tenon_plugin;

/* The one exported symbol. Answers the same pointer each time. */
typedef const tenon_plugin* (*tenon_plugin_entry_fn)(void);
#define TENON_PLUGIN_ENTRY "tenon_plugin_entry"

#ifdef __cplusplus
}
#endif
#endif
