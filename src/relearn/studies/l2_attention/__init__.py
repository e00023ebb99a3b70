"""The study of L2 self-attention (kim2020)."""
