"""l2_attention"""
