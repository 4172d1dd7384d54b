# The ops of the reference's kernels, for its manifest and that of the far-memory backend, which serves them as well.
set(TENON_REFERENCE_OPS embed encode norm linear glu gate add mul scale softcap concat rope kv_write attention
                        latent_attention short_conv gated_delta_rule route expert_ffn fold_slots select_rows logits_tail)
