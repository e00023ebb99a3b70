"""One package per study; see STUDIES."""
