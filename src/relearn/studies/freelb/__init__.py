"""freelb"""
