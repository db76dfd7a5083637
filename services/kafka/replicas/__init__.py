"""What single replicas tell, leader or not: log ends, written epochs, directories, records."""
