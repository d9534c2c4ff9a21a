"""What the screens are made of: each shows the values it is given and posts what the user did."""
