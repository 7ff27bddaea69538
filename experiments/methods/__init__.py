"""Six ways to forget side by side, what releases tell about people, and what two of them show."""
