"""What users come back to: learned from logs and live traffic, and kept ready."""
