"""The documentation as a static MkDocs site: Markdown pages from published results, the studies and docs/."""
