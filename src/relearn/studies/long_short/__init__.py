"""long_short"""
