"""The study of FreeLB (zhu2022, chapter 3)."""
