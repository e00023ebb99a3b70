"""layer_scale"""
