"""The pipeline that makes Katydid's embedded model."""
