"""The problems: equations of nature, their data and their reference solutions."""
