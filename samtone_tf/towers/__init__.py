"""Text encoders: token ids in, one unit vector per text out."""
