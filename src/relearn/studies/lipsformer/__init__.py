"""lipsformer"""
