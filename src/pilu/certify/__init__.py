"""From a law and a request to noise, epsilon and a certificate."""
