"""Steps of this study."""
