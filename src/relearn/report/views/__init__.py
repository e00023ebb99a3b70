"""What a page shows, as plain dictionaries and texts: the same for report.html and for the site."""
