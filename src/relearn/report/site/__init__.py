"""The documentation as a static site: pages in Markdown from what is published, from the studies and from docs/, for MkDocs."""
