"""The configs of published models, and of a tiny one for the emulator, as far as they give a shape: random weights do for
measuring. Shared by tools/gpu-check and tools/kernel-model."""


def llama(vocab, hidden, intermediate, layers, heads, head_dim, factor, tied):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": 8, "head_dim": head_dim, "hidden_act": "silu", "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
            "rope_scaling": {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192}}


SHAPES = {
    "qwen3-0.6b": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
                   "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 40960,
                   "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True,
                   "torch_dtype": "bfloat16"},
    "llama-3.2-1b": llama(128256, 2048, 8192, 16, 32, 64, 32.0, True),
    "llama-3.1-8b": llama(128256, 4096, 14336, 32, 32, 128, 8.0, False),
    "tiny": llama(500, 64, 96, 2, 16, 8, 8.0, True),
}
