"""What is known to fail: (pattern of NAME.VARIANT, reason). What passes in spite of it fails the survey."""
KNOWN = [
]
