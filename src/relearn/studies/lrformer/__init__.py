"""lrformer"""
