"""The paper once more: its jobs, numbers and findings beside ours."""
