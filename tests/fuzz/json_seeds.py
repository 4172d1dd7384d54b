#!/usr/bin/env python3
"""Writes the corpora of the targets safetensors, config and tokenizer_json: json_seeds.py FOLDER."""
import json
import pathlib
import sys

WIDTH, HEADS, HEAD_WIDTH, FFN, VOCAB = 32, 2, 16, 32, 8
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}


def header(tensors, metadata=None):
    """The number of bytes of the data and the header, as safetensors_target.cpp takes them."""
    out, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, kind, shape in tensors:
        n = BYTES[kind]
        for dim in shape:
            n *= dim
        out[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return str(at) + json.dumps(out, separators=(",", ":"))


def layer(linear):
    """A layer of llama; `linear` makes the tensors of a weight."""
    at = "model.layers.0."
    out = [(at + "input_layernorm.weight", "F32", [WIDTH]), (at + "post_attention_layernorm.weight", "BF16", [WIDTH])]
    for name, rows, cols in [("self_attn.q_proj", HEADS * HEAD_WIDTH, WIDTH), ("self_attn.k_proj", HEAD_WIDTH, WIDTH),
                             ("self_attn.v_proj", HEAD_WIDTH, WIDTH), ("self_attn.o_proj", WIDTH, HEADS * HEAD_WIDTH),
                             ("mlp.gate_proj", FFN, WIDTH), ("mlp.up_proj", FFN, WIDTH), ("mlp.down_proj", WIDTH, FFN)]:
        out += linear(at + name, rows, cols)
    return out


def plain(name, rows, cols):
    return [(name + ".weight", "BF16", [rows, cols])]


def fp8(name, rows, cols):
    return [(name + ".weight", "F8_E4M3", [rows, cols]), (name + ".weight_scale_inv", "F32", [1, 1])]


def nvfp4(name, rows, cols):
    return [(name + ".weight", "U8", [rows, cols // 2]), (name + ".weight_scale", "F8_E4M3", [rows, cols // 16]),
            (name + ".weight_scale_2", "F32", [])]


def nvfp4_packed(name, rows, cols):
    return [(name + ".weight_packed", "U8", [rows, cols // 2]), (name + ".weight_scale", "F8_E4M3", [rows, cols // 16]),
            (name + ".weight_global_scale", "F32", [1])]


def safetensors():
    ends = [("model.embed_tokens.weight", "F16", [VOCAB, WIDTH]), ("model.norm.weight", "BF16", [WIDTH])]
    kinds = {"plain": plain, "fp8": fp8, "nvfp4": nvfp4, "nvfp4-packed": nvfp4_packed}
    out = {name: header(ends + layer(linear), {"format": "pt"}) for name, linear in kinds.items()}
    parts = [ends, layer(plain)]
    index = {"metadata": {"total_size": 1}, "weight_map": {
        name: f"model-0000{i + 1}-of-00002.safetensors" for i, part in enumerate(parts) for name, _, _ in part}}
    out["set"] = "\1".join([json.dumps(index, separators=(",", ":"))] + [header(part) for part in parts])
    text = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    out["bytes"] = "#" + (len(text)).to_bytes(8, "little").decode("latin-1") + text + "data"
    return out


def configs():
    common = {"vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS,
              "num_key_value_heads": 1, "head_dim": HEAD_WIDTH, "intermediate_size": FFN, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 128, "tie_word_embeddings": True, "eos_token_id": [1, 2]}
    kinds = ["sliding_attention", "full_attention"]
    linear = {"linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
              "linear_num_key_heads": 2, "linear_num_value_heads": 4, "layer_types": ["linear_attention", kinds[1]],
              "full_attention_interval": 2, "mtp_num_hidden_layers": 1, "model_type": "qwen3_5_text",
              "rope_parameters": {"mrope_interleaved": True, "mrope_section": [1, 1, 0], "rope_type": "default",
                                  "rope_theta": 1e7, "partial_rotary_factor": 0.25}}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
               "shared_expert_intermediate_size": 32}
    ropes = {kinds[0]: {"rope_type": "default", "rope_theta": 1e4},
             kinds[1]: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}
    gemma4 = {"sliding_window": 32, "layer_types": kinds, "final_logit_softcapping": 30.0, "rope_parameters": ropes,
              "global_head_dim": 32, "num_global_key_value_heads": 1, "vocab_size_per_layer_input": VOCAB,
              "hidden_activation": "gelu_pytorch_tanh", "model_type": "gemma4_text"}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 64}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0}
    step = {"num_attention_groups": 1, "layer_types": kinds[::-1], "rope_theta": [5e6, 1e4],
            "partial_rotary_factors": [0.5, 1.0], "sliding_window": 32, "moe_layers_enum": "1", "moe_num_experts": 4,
            "moe_top_k": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "moe_router_scaling_factor": 1.5,
            "swiglu_limits": [0.0, 1.0], "swiglu_limits_shared": [0.0, 2.0], "use_head_wise_attn_gate": True,
            "attention_other_setting": {"attention_type": kinds[0], "num_attention_heads": 4,
                                        "num_attention_groups": 1, "head_dim": 16}}
    fp8_config = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}
    models = {
        "llama": common | {"model_type": "llama", "rope_theta": 1e4, "rope_scaling": llama3},
        "qwen3": common | {"model_type": "qwen3", "rope_theta": 1e6, "rope_scaling": yarn, "quantization_config": fp8_config},
        "gemma3": common | {"model_type": "gemma3_text", "sliding_window": 32, "layer_types": kinds, "rope_theta": 1e6,
                            "rope_local_base_freq": 1e4, "query_pre_attn_scalar": 16, "_sliding_window_pattern": 2},
        "qwen35": {"model_type": "qwen3_5", "text_config": common | linear},
        "qwen35moe": {"model_type": "qwen3_5_moe", "text_config": common | linear | experts | {"model_type": "qwen3_5_moe_text"}},
        "gemma4": {"model_type": "gemma4", "text_config": common | gemma4 | {"attention_k_eq_v": True}},
        "gemma4e": {"model_type": "gemma4", "text_config": common | gemma4 | {
            "hidden_size_per_layer_input": 16, "num_hidden_layers": 4, "layer_types": kinds * 2, "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True}},
        "gemma4moe": {"model_type": "gemma4", "text_config": common | gemma4 | {
            "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}},
        "step35": common | step | {"model_type": "step3p5", "num_nextn_predict_layers": 1},
    }
    generation = {"eos_token_id": [1, 2], "suppress_tokens": [3], "temperature": 0.5, "top_k": 40}
    tokenizer = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": True,
                 "chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}]}
    quant = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}}
    out = {name: json.dumps(config) for name, config in models.items()}
    out["all-files"] = "\1".join(json.dumps(one) for one in (models["llama"], generation, tokenizer, quant, bytewise()))
    return out


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def bytewise():
    added = [{"id": 4, "content": "<s>", "special": True}, {"id": 5, "content": "<tool>", "special": False}]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                         {"Sequence": {"id": "A", "type_id": 0}}]}
    words = {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u00c3": 6, "\u00a9": 7, "\u00c3\u00a9": 8}
    return {"added_tokens": added, "normalizer": {"type": "NFC"}, "pre_tokenizer": BYTE_LEVEL,
            "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]},
            "model": {"type": "BPE", "vocab": words, "merges": ["a b", ["\u00c3", "\u00a9"]]}}


def tokenizers():
    qwen2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    split = {"type": "Split", "pattern": {"Regex": qwen2}, "behavior": "Isolated", "invert": False}
    steps = {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL | {"use_regex": False}]}
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    letters = {"<unk>": 0, "\u2581": 1, "a": 2, "\u2581a": 3, "<0xC3>": 4, "<0xA9>": 5}
    characters = {"added_tokens": [{"id": 0, "content": "<unk>", "special": True}], "normalizer": mark,
                  "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                  "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "vocab": letters,
                            "merges": [["\u2581", "a"]]}}
    prefixed = characters | {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, mark]}}
    files = {"bytes": bytewise(), "bytes-split": bytewise() | {"pre_tokenizer": steps}, "characters": characters,
             "characters-prefixed": prefixed}
    out = {name: json.dumps(file, ensure_ascii=False) for name, file in files.items()}
    out["escapes"] = json.dumps(bytewise()) + "\1abab \u00e9<tool>\ufffd 12\r\n"
    return out


def main():
    root = pathlib.Path(sys.argv[1])
    for target, files in {"safetensors": safetensors(), "config": configs(), "tokenizer_json": tokenizers()}.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / target / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
