"""The importer of finished and running runs into MLflow."""
