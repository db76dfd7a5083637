"""What changes the world is agreed to, journalled, looked at again and done once."""
