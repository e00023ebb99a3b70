"""Content of pages as plain dictionaries and texts, shared by report.html and the site."""
