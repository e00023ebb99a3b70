"""The study of GradInit (zhu2022, chapter 4)."""
