"""The one importer of finished and running runs into MLflow."""
