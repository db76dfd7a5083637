"""What tests share: readers, makers and impostors that the product does not have."""
