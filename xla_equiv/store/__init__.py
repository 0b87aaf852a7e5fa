"""What is kept on disk: traces, goldens, tolerance files, run folders, reports."""
