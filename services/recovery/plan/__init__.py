"""The plan as a document: made, read, edited, checked, and the files that KIP-1275 knows."""
