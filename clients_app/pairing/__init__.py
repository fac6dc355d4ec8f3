"""How a program gets its token without anybody copying one: the device grant of RFC 8628."""
