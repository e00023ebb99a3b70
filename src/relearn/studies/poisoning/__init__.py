"""poisoning"""
